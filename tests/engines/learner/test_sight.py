"""Sight is the reference engine's, whatever keeps the projection; and a saved stream goes on to the same numbers."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from headrace.agents import agent_named
from headrace.definition.networks import init_params, layout_of
from headrace.engines.jax.arrays import from_named_arrays
from headrace.engines.jax.sight import sight
from headrace.engines.learner.engine import LearnerEngine
from headrace.engines.learner.sight import EVERY, measures
from headrace.engines.metrics import SIGHT
from headrace.errors import CheckpointDamaged
from tests.engines.learner.support import IMAGE, SMALL, STEPS, VECTOR, experience, on, spec_of

_sight = jax.jit(sight, static_argnums=0)


def test_two_states_and_two_actions():
    q, z = np.array([[1.0, 3.0], [2.0, 6.0]]), np.array([[3.0, 1.0], [1.0, -1.0]])
    found = measures(q, z, np.array([[-1.0, 2.0], [-3.0, 2.0]]))
    assert found == pytest.approx({"sight": np.sqrt(1.25) / 1.5, "latent_spread": 2 / 6, "dead_units": 1 / 4})
    assert measures(np.ones((2, 2)), z, z)["sight"] == 0


def learnt(agent, shape, steps, box=False):
    first, answers = experience(shape, steps)
    fast = LearnerEngine(agent, spec_of(shape, box=box), seed=0, steps=STEPS)
    fast.begin(first)
    for answer in answers:
        fast.learn(answer)
    return fast


def sight_of(engine):
    return {name: value for name, value in engine.report().items() if name in SIGHT}


@pytest.mark.parametrize("name", ["dqn", "strq+spr", "qrc+spr+orth"])
@pytest.mark.parametrize("network", [IMAGE, VECTOR])
def test_both_engines_measure_the_same_of_one_state(name, network):
    agent, shape = on(agent_named(name), network), SMALL[network]
    fast = learnt(agent, shape, 3 * EVERY)
    agree(agent, spec_of(shape), fast)


def agree(agent, spec, fast):
    arrays, layout = fast.save(), layout_of(agent, spec.observation_shape, spec.n_actions)
    template = jax.eval_shape(lambda: init_params(agent, layout, jax.random.key(0)))
    params = from_named_arrays("stream/agent/params", template, arrays)
    wanted = _sight(layout, params, arrays["stream/seen"], fast.step)
    assert sight_of(fast) == pytest.approx({name: float(wanted[name]) for name in SIGHT}, rel=1e-3)


def test_the_values_of_a_critic_are_not_spread_over_actions():
    found = sight_of(learnt(on(agent_named("ac"), VECTOR), SMALL[VECTOR], 3 * EVERY, box=True))
    assert np.isnan(found["sight"])
    assert 0 < found["latent_spread"] < 1


def test_reporting_changes_nothing_and_a_saved_stream_reports_the_same():
    agent, shape = on(agent_named("qrc+spr+orth"), IMAGE), SMALL[IMAGE]
    first, answers = experience(shape, EVERY + 20)
    told, quiet, resumed = (LearnerEngine(agent, spec_of(shape), seed=0, steps=STEPS) for _ in range(3))
    for engine in (told, quiet):
        engine.begin(first)
        for t, answer in enumerate(answers):
            engine.learn(answer)
            if engine is told and t % 10 == 0:
                engine.report()
    saved = quiet.save()
    for name, array in told.save().items():
        if not name.startswith("stream/tally/"):
            np.testing.assert_array_equal(array, saved[name], err_msg=name)
    resumed.restore(saved)
    assert sight_of(resumed) == sight_of(quiet)
    assert all(np.isfinite(value) for value in sight_of(quiet).values())


def test_a_state_saved_before_there_was_sight_is_refused_by_name():
    agent, shape = on(agent_named("dqn"), VECTOR), SMALL[VECTOR]
    saved = learnt(agent, shape, 3).save()
    del saved["stream/seen"]
    with pytest.raises(CheckpointDamaged, match="no array stream/seen"):
        LearnerEngine(agent, spec_of(shape), seed=0, steps=STEPS).restore(saved)
