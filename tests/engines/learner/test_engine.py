"""The learner as an object, without a second engine beside it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import jax
import numpy as np
import pytest

from headrace.agents import Orth, agent_named
from headrace.definition.networks import layout_in
from headrace.engines.jax.arrays import _names
from headrace.engines.jax.stream import begin, make_setting
from headrace.engines.learner.engine import LearnerEngine, supports
from headrace.envs.base import TimeStep
from headrace.errors import CheckpointDamaged, EnvironmentFault
from headrace.policy import Policy
from tests.covering import covering
from tests.engines.learner.support import IMAGE, NAMES, SMALL, VECTOR, WITH_BOXES, experience, on, spec_of


class Louder(Orth):
    """A part that somebody else wrote."""


def engine_of(name, network=VECTOR, box=False):
    return LearnerEngine(on(agent_named(name), network), spec_of(SMALL[network], box=box), seed=3, steps=100)


def run(engine, answers):
    for timestep in answers:
        engine.learn(timestep)
    return engine.save()


def same(a, b):
    return [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)] == []


USUAL = covering(NAMES)
COVERING = [pytest.param(*one, marks=[] if one[0] in USUAL else [pytest.mark.long]) for one in WITH_BOXES]


@pytest.mark.parametrize(("name", "box"), COVERING)
@pytest.mark.parametrize("network", [IMAGE, VECTOR], ids=["image", "vector"])
def test_a_state_has_the_names_shapes_and_types_of_the_reference_engines(name, box, network):
    agent, spec = on(agent_named(name), network), spec_of(SMALL[network], box=box)
    layout = layout_in(agent, spec)
    blank = np.zeros(spec.observation_shape, np.float32)
    state = jax.eval_shape(lambda obs: begin(make_setting(agent, 0, 100), layout, obs), blank)
    wanted = {k: (x.shape, x.dtype) for k, x in zip(_names("stream", state), jax.tree.leaves(state), strict=True)}
    engine = LearnerEngine(agent, spec, seed=0, steps=100)
    engine.begin(blank)
    assert {k: (x.shape, x.dtype) for k, x in engine.save().items()} == wanted


@pytest.mark.parametrize(("name", "box"), WITH_BOXES)
def test_a_stream_that_is_saved_and_restored_goes_on_to_the_bit(name, box):
    first, answers = experience(SMALL[VECTOR], 60)
    whole, saved = engine_of(name, box=box), engine_of(name, box=box)
    whole.begin(first)
    saved.begin(first)
    for cut in (17, 29, 31):  # after an end, after a lost life, in the middle
        state = run(saved, answers[saved.step : cut])
        saved = engine_of(name, box=box)
        saved.restore(state)
    assert same(run(whole, answers), run(saved, answers[31:]))


def test_a_state_is_put_in_place_of_one_that_was_never_saved():
    """Of which traces were to be cut at the next step, and the window had been turned."""
    first, answers = experience(SMALL[VECTOR], 40)
    whole, other = engine_of("strq+spr"), engine_of("strq+spr")
    for engine in (whole, other):
        engine.begin(first)
    for timestep in answers[:17]:  # the last of which ends an episode
        other.learn(timestep)
    other.restore(run(whole, answers[:25]))
    assert same(run(whole, answers[25:]), run(other, answers[25:]))


def test_a_restart_learns_nothing_and_forgets_traces_and_window():
    first, answers = experience(SMALL[VECTOR], 10)
    engine = engine_of("qrc+spr")
    engine.begin(first)
    before = run(engine, answers)
    engine.restart(first)
    after = engine.save()
    for name in (n for n in after if n.startswith("stream/agent/params/")):
        np.testing.assert_array_equal(before[name], after[name])
    assert all(not after[n].any() for n in after if "_trace" in n)
    assert after["stream/agent/aux/window/held"] == 0
    assert after["stream/obs_scale/count"] == before["stream/obs_scale/count"] + 1
    assert engine.step == 10


def test_an_episode_is_reported_when_it_ends():
    first, answers = experience(SMALL[VECTOR], 17)
    engine = engine_of("strq")
    engine.begin(first)
    ended = [engine.learn(timestep) for timestep in answers]
    assert ended[:16] == [None] * 16
    assert ended[16].step == 17
    assert ended[16].length == 17
    assert ended[16].episode_return == pytest.approx(sum(float(a.reward) for a in answers), rel=1e-5)


def test_a_report_is_a_mean_and_begins_anew():
    first, answers = experience(SMALL[VECTOR], 8)
    engine = engine_of("qrc+spr")
    engine.begin(first)
    run(engine, answers)
    means = engine.report()
    assert means["reward"] == pytest.approx(np.mean([float(a.reward) for a in answers]), rel=1e-5)
    assert means["aux_active"] == pytest.approx(4 / 8)
    assert np.isnan(engine.report()["reward"])
    assert engine.trouble() is None


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"successor": np.full(SMALL[VECTOR], np.nan)}, "successor .* has nan in it"),
        ({"reward": float("inf")}, "reward .* has inf in it"),
        ({"successor": np.zeros(3)}, r"successor .* has shape \(3,\)"),
        ({"successor": "what"}, "successor .* is no array of numbers"),
        ({"reward": None}, "reward"),
    ],
)
def test_an_answer_that_nothing_can_be_learnt_from_changes_nothing(change, what):
    first, answers = experience(SMALL[VECTOR], 3)
    engine = engine_of("strq")
    engine.begin(first)
    before = run(engine, answers[:2])
    with pytest.raises(EnvironmentFault, match=what):
        engine.learn(answers[2]._replace(**change))
    assert same(before, engine.save())
    engine.learn(answers[2])


def test_what_cannot_be_run_is_told_why():
    assert supports(agent_named("qrc+curl"), (10, 10, 4)) == "it does not know Curl"
    assert supports(agent_named("qrc+spr+orth"), (10, 10, 4)) is None
    strange = dataclasses.replace(agent_named("qrc+spr"), td_filter=Louder())
    assert supports(strange, (10, 10, 4)) == "it does not know Louder"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent/step", -1), ("choice/action", 3), ("obs_scale/count", -1), ("tally/bad_quantity", 99),
        ("agent/aux/window/held", -1), ("agent/aux/window/actions", 7),
    ],
)  # fmt: skip
def test_a_state_that_counts_or_points_out_of_range_is_refused(name, value):
    engine = engine_of("qrc+spr+orth")
    engine.begin(experience(SMALL[VECTOR], 1)[0])
    state = {**engine.save(), "stream/tally/bad_step": np.int32(0)}
    state[f"stream/{name}"] = np.full_like(state[f"stream/{name}"], value)
    with pytest.raises(CheckpointDamaged, match="a count or an action in it is out of range"):
        engine_of("qrc+spr+orth").restore(state)


def test_a_state_with_an_action_that_no_environment_could_take_is_refused():
    engine = engine_of("ac", box=True)
    engine.begin(experience(SMALL[VECTOR], 1)[0])
    assert engine.action.shape == (3,)
    state = engine.save()
    state["stream/choice/action"][1] = np.nan
    with pytest.raises(CheckpointDamaged, match="a count or an action in it is out of range"):
        engine_of("ac", box=True).restore(state)


def test_an_action_in_a_box_is_finite_whatever_has_become_of_the_parameters():
    first, answers = experience(SMALL[VECTOR], 3)
    engine = engine_of("ac", box=True)
    engine.begin(first)
    state = engine.save()
    engine.restore({name: np.full_like(x, np.inf) if "pi_head" in name else x for name, x in state.items()})
    engine.learn(answers[0])
    assert engine.action.tolist() == [0, 0, 0]
    assert engine.trouble() is not None


def test_a_state_in_another_byte_order_is_refused():
    engine = engine_of("qrc")
    engine.begin(experience(SMALL[VECTOR], 1)[0])
    turned = {name: array.astype(array.dtype.newbyteorder()) for name, array in engine.save().items()}
    with pytest.raises(CheckpointDamaged, match="this agent needs"):
        engine.restore(turned)


def test_a_state_of_another_agent_is_refused_whole():
    first, _ = experience(SMALL[VECTOR], 3)
    engine, other = engine_of("qrc"), engine_of("strq")
    engine.begin(first)
    other.begin(first)
    with pytest.raises(CheckpointDamaged, match="it has no array stream/agent/td/"):
        engine.restore(other.save())


def test_the_frozen_policy_chooses_the_best_action_and_knows_latents():
    first, answers = experience(SMALL[IMAGE], 30)
    engine = engine_of("strq+spr", IMAGE)
    engine.begin(first)
    state = run(engine, answers)
    agent = on(agent_named("strq+spr"), IMAGE)
    policy = Policy(agent, state)
    assert len({policy(answers[0].obs) for _ in range(5)}) == 1
    assert policy.latent(answers[0].obs).shape == (2 * 5 * 5,)
    random = Policy(agent, state, eps=1.0, seed=1)
    assert {random(first) for _ in range(60)} == {0, 1, 2}


def test_no_jax_is_loaded():
    code = (
        "import sys, headrace.engines.learner.engine, headrace.policy;"
        "sys.exit(any(name in sys.modules for name in ('jax', 'jaxlib', 'headrace.definition')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_timestep_of_plain_numbers_is_taken():
    first, _ = experience(SMALL[VECTOR], 1)
    engine = engine_of("strq")
    engine.begin(first)
    engine.learn(TimeStep([0, 1, 2, 3], [0, 1, 2, 3], 1, False, False, False))
    assert engine.step == 1
