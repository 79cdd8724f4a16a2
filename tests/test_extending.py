"""docs/extending.md, run as it stands there: parts of another package, for which nothing here was changed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import headrace
from headrace.agents import Agent, Qrc, agent_named, from_json, name_of, parse, to_json, tweak
from headrace.analysis.records import find_runs
from headrace.cli.show import describe
from headrace.definition.evaluate import Value, Values
from headrace.definition.networks import ByAction
from headrace.definition.td import init_td, update_td
from headrace.definition.transition import Draws, StepContext
from headrace.engines.jax.compiled import CompiledStream
from headrace.engines.jax.fleet import Fleet
from headrace.envs.registry import environment
from headrace.errors import BadSetting, UnknownName
from headrace.part import KINDS
from headrace.runs.folder import RunFolder
from headrace.training.single import train
from tests.definition.support import transition
from tests.small_runs import StopAt, assert_same_result

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
TINY = "network=Mlp((6,),5)"


@pytest.fixture(scope="module", autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder outside of the package with the page's files in it, where a user is."""
    folder, before, kinds = tmp_path_factory.mktemp("elsewhere"), list(sys.path), dict(KINDS)
    files = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert set(files) == {"my_rules.py", "my_objectives.py"}
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder
    sys.path[:] = before
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)
    for name in KINDS.keys() - kinds.keys():
        del KINDS[name]


RULE, AUX = "my_rules.AGENT", "my_objectives.AGENT"


def small(name: str) -> Agent:
    return tweak(agent_named(name), TINY)


@pytest.mark.parametrize(("name", "path"), [(RULE, "my_rules.MellowQ"), (AUX, "my_objectives.Reconstruction")])
def test_a_part_from_elsewhere_prints_passes_through_json_and_is_set_by_its_import_path(name, path):
    agent = agent_named(name)
    assert path + "(" in repr(agent)
    assert path in json.dumps(to_json(agent))
    assert parse(repr(agent)) == agent == from_json(json.loads(json.dumps(to_json(agent))))
    place = "td" if name == RULE else "aux.objective"
    assert type(parse(path)) is type(agent.td if place == "td" else agent.aux.objective)
    assert tweak(agent_named("qrc+spr"), f"{place}={path}") != agent_named("qrc+spr")
    assert path in name_of(agent)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("my_rules.MellowP", "unknown part 'my_rules.MellowP'; did you mean 'my_rules.MellowQ'"),
        ("my_rules.MellowQ(lr=-1)", "MellowQ.lr must be >= 0.0, got -1"),
        ("my_rulez.MellowQ", "cannot import my_rulez: ModuleNotFoundError"),
        ("my_objectives.Reconstruction", r"must be one of .*StreamQ \| Sarsa .* \| my_rules.MellowQ, got my_obj"),
        ("Rule", "unknown part 'Rule'"),
    ],
)
def test_a_bad_import_path_is_answered_with_what_is_wrong(value, message):
    agent_named(RULE)
    with pytest.raises(headrace.HeadraceError, match=message):
        tweak(agent_named("qrc"), f"td={value}")


def test_a_rule_without_gamma_or_decorator_is_refused():
    from dataclasses import dataclass

    from headrace.agents import Rule

    try:

        @dataclass(frozen=True)
        class Timeless(Rule):
            lr: float = 1.0

        class Plain(Rule):
            gamma: float = 0.9

        with pytest.raises(BadSetting, match="a rule needs a field gamma"):
            Agent(Timeless())
        with pytest.raises(BadSetting, match=r"lacks its decorator: @dataclass\(frozen=True\)"):
            Plain()
        with pytest.raises(BadSetting, match=r"Rule is a slot, not a part; it takes Dqn \| StreamQ \| Sarsa \|"):
            Rule()
    finally:
        for name in [name for name in KINDS if name.endswith((".Timeless", ".Plain"))]:
            del KINDS[name]


def test_an_agent_of_no_such_name_or_path_is_unknown():
    with pytest.raises(UnknownName, match=r"unknown variant 'my_rules\.Agents'"):
        agent_named("my_rules.Agents")


# the rule -------------------------------------------------------------------------------------------------------------


def step(rule: Any, t: Any, state: Any, epsilon: float) -> Any:
    """Q(s, .) = (1, 2), Q(s', .) = (3, 5) and one output that stands for no action; a gradient of 1."""
    unit = {name: [{"w": jnp.ones(1)}] for name in ("encoder", "projection", "head")}
    next_q = ByAction(jnp.array([3.0, 5.0, 0.0]), jnp.array([True, True, False]))
    values = Values(Value(jnp.float32(2), unit), Value(jnp.float32(5)), next_q)
    nothing = jnp.zeros(0)
    context = StepContext(jnp.int32(0), jnp.float32(epsilon), Draws(nothing, nothing, nothing, nothing, nothing))
    return update_td(rule, values, {}, init_td(rule, unit, t) if state is None else state, t, context)


def test_mellowmax_by_hand():
    """The mean of e^1.5 and e^2.5 has the logarithm 2.1201: delta = 1 + 2.1201 - 2; a trace of 1, then 1.25."""
    rule = tweak(agent_named(RULE).td, "lr=0.1", "gamma=0.5", "lamda=0.5", "temperature=2")
    t = transition([1.0], 1, 1.0, [0.0])
    one = step(rule, t, None, 0.5)
    assert float(one.updates["head"][0]["w"][0]) == pytest.approx(0.11201, abs=1e-5)
    two = step(rule, t._replace(terminated=jnp.bool_(True)), one.state, 0.5)
    assert float(two.updates["head"][0]["w"][0]) == pytest.approx(0.1 * (1 - 2) * 1.25)
    assert float(two.state.trace["head"][0]["w"][0]) == 0


# both, as a user has them ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", [pytest.param(RULE, marks=pytest.mark.long), AUX])
def test_it_trains_resumes_to_the_bit_and_shows_in_show_and_reports(name, tmp_path):
    words = {"steps": 1000, "settings": (TINY, "explore.fraction=0.5"), "checkpoint_every": 200, "seed": 1}
    said = StopAt(10**9)  # never
    whole = train(name, "gym/CartPole-v1", out=tmp_path / "whole", progress=said, **words)
    strange = {RULE: "MellowQ", AUX: "Reconstruction"}[name]
    assert said.notices[0] == (
        "the reference engine is used, because the learner cannot compute this agent: it does not know " + strange
    )
    stopped = train(name, "gym/CartPole-v1", out=tmp_path / "parts", progress=StopAt(400), **words)
    assert stopped.status == "interrupted"
    resumed = train(name, "gym/CartPole-v1", out=tmp_path / "parts", **words)
    assert resumed.status == "finished"
    assert_same_result(resumed.path, whole.path)

    assert strange in describe(whole.path)[0]["name"]
    (record,) = find_runs(tmp_path / "whole").records
    assert strange in record.agent
    metrics = RunFolder.read(whole.path).metrics()
    assert np.isfinite(metrics["td_error"]).all()
    if name == AUX:
        assert np.isfinite(metrics["aux_loss"]).all()


ALWAYS = ("explore.start=1", "explore.end=1")  # rounding decides no action


@pytest.mark.parametrize("name", [RULE, pytest.param(AUX, marks=pytest.mark.long)])
def test_in_a_fleet_it_is_the_run_alone(name):
    agents = [tweak(small(name), *ALWAYS, f"td.lr={lr}") for lr in (1e-3, 2e-3)]
    env, steps = environment("probe/delayed").compiled(), 60
    fleet = Fleet(agents, [env, env], [1, 2], steps)
    fleet.begin()
    fleet.run(steps)
    for agent, seed, (together, _) in zip(agents, (1, 2), fleet.save(), strict=True):
        stream = CompiledStream(agent, env, seed=seed, steps=steps)
        stream.begin()
        begun = stream.save()[0]
        stream.run(steps)
        alone = stream.save()[0]
        assert together.keys() == alone.keys()
        for array in alone:
            np.testing.assert_allclose(together[array], alone[array], rtol=1e-4, atol=1e-6, err_msg=array)
        moved = "stream/agent/params/decoder/0/w" if name == AUX else "stream/agent/params/encoder/0/w"
        assert not np.array_equal(begun[moved], alone[moved])


def test_games_of_different_shapes_share_a_fleet_with_a_rule_but_not_with_what_decodes_them():
    envs = [environment(f"probe/{name}").compiled() for name in ("one_step", "delayed")]
    agents = [small(RULE)] * 2
    Fleet(agents, envs, [1, 2], 10)
    with pytest.raises(BadSetting, match=r"cannot share a fleet with my_objectives.Reconstruction\(\)"):
        Fleet([small(AUX)] * 2, envs, [1, 2], 10)


def test_reconstruction_learns_to_reconstruct():
    """The loss of a stream whose states are seen again and again falls to a fraction."""
    stream = CompiledStream(
        tweak(small(AUX), "aux.lr=0.05"), environment("probe/delayed").compiled(), seed=0, steps=900
    )
    stream.begin()
    losses = []
    for _ in range(3):
        stream.run(300)
        losses.append(stream.report()["aux_loss"])
    assert losses[-1] < 0.5 * losses[0]


def test_parts_of_this_package_are_written_by_their_names_alone():
    assert to_json(Qrc())["part"] == "Qrc"
    assert jax.tree.leaves(Qrc())  # and their numbers can be traced
