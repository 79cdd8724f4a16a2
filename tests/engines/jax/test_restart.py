"""An episode that is broken off, as where an environment cannot be saved: nothing is learnt from the break."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.definition.networks import q_values
from headrace.engines.jax.engine import ReferenceEngine
from headrace.envs.base import EnvSpec, TimeStep

SPEC = EnvSpec("toy", (3,), ("a", "b"))


def moment(n: int) -> TimeStep:
    image = np.random.default_rng(n).normal(size=3).astype(np.float32)
    return TimeStep(image, image, float(n % 3), False, False, False)


@pytest.mark.parametrize("name", ["strq", "qrc+spr"])
def test_traces_and_window_are_empty_and_all_else_stays(name: str) -> None:
    agent = tweak(agent_named(name), "network=Mlp((4,), 4)", "explore.start=0", "explore.end=0")
    engine = ReferenceEngine(agent, SPEC, seed=0, steps=100)
    engine.begin(np.zeros(3))
    for n in range(8):
        engine.learn(moment(n))
    before = {name: array.copy() for name, array in engine.save().items()}
    engine.restart(np.array([0.5, -1.0, 2.0]))
    after = engine.save()

    reset = [n for n in after if "_trace" in n or "/trace" in n or n.endswith("window/held") or "episode_" in n]
    assert all(not after[n].any() for n in [*reset, "stream/reward_scale/discounted"])
    assert any(before[n].any() for n in reset if "trace" in n)
    new = ("stream/obs", "stream/choice", "stream/reward_scale/discounted")
    for n in after:
        if n not in reset and not n.startswith(new):
            np.testing.assert_array_equal(after[n], before[n], err_msg=n)
    assert int(after["stream/obs_scale/count"]) == int(before["stream/obs_scale/count"]) + 1
    assert engine.step == 8


def test_the_action_is_chosen_for_the_new_observation() -> None:
    agent = tweak(agent_named("strq"), "network=Mlp((4,), 4)", "explore.start=0", "explore.end=0")
    chosen = set()
    for seed in range(6):
        engine = ReferenceEngine(agent, SPEC, seed=seed, steps=100)
        engine.begin(np.zeros(3))
        engine.learn(moment(1))
        engine.restart(np.array([3.0, -3.0, 1.0]))
        state = engine.state
        assert state is not None
        assert engine.action == int(jax.numpy.argmax(q_values(engine.layout, state.agent.params, state.obs)))
        chosen.add(engine.action)
    assert chosen == {0, 1}
