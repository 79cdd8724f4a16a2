"""Stacked frames, by hand, on one number as frame and three frames as observation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.definition.networks import layout_of
from headrace.engines.jax import stream
from headrace.engines.jax.engine import ReferenceEngine
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import EnvironmentFault

AGENT = tweak(agent_named("qrc"), "network=Mlp((2,), 2)")
LAYOUT = layout_of(AGENT, (3,), 2, frames=3)
SETTING = stream.make_setting(AGENT, 0, 100)


def said(successor, obs=None, terminated=False, last=False):
    frames = (jnp.array([x], jnp.float32) for x in (successor if obs is None else obs, successor))
    return TimeStep(*frames, jnp.float32(0), jnp.bool_(terminated), jnp.bool_(False), jnp.bool_(last))


def played(first, *timesteps, setting=SETTING):
    """The stream's states, the one before the first step included."""
    states = [stream.begin(setting, LAYOUT, jnp.array([first], jnp.float32))]
    for timestep in timesteps:
        states.append(stream.advance(setting, LAYOUT, states[-1], timestep)[0])
    return states


def test_each_frame_is_standardised_when_it_is_new_and_then_kept():
    states = played(1.0, said(3.0), said(5.0), said(7.0))
    # Mean and variance after 1, 3: 2 and 2; after 5: 3 and 4; after 7: 4 and 20/3.
    second, third, fourth = 1 / np.sqrt(2), 1.0, 3 / np.sqrt(20 / 3)
    wanted = [(0, 0, 0), (0, 0, second), (0, second, third), (second, third, fourth)]
    np.testing.assert_allclose([s.obs for s in states], wanted, rtol=1e-6)


def test_a_limit_is_on_what_the_agent_is_given_and_not_on_the_statistics():
    limited = stream.make_setting(tweak(AGENT, "observations=Limited(0.9)"), 0, 100)
    said_so = said(3.0), said(5.0), said(-99.0, 7.0, last=True)
    plain, found = played(1.0, *said_so), played(1.0, *said_so, setting=limited)
    second = 1 / np.sqrt(2)
    np.testing.assert_allclose(found[2].obs, (0, second, 0.9), rtol=1e-6)  # without a limit 1
    for mine, theirs in zip(found, plain, strict=True):
        np.testing.assert_array_equal(mine.obs, np.clip(theirs.obs, -0.9, 0.9))
        np.testing.assert_array_equal(mine.obs_scale.squares, theirs.obs_scale.squares)


def test_statistics_are_over_single_frames_and_count_each_once():
    scale = played(1.0, said(3.0), said(5.0))[-1].obs_scale
    assert scale.mean.shape == (1,)
    assert (int(scale.count), float(scale.mean[0])) == (3, 3.0)


def test_a_new_episode_begins_with_its_first_frame_repeated():
    state = played(1.0, said(3.0, obs=8.0, last=True))[-1]
    # The statistics have seen 1, 3 and 8: mean 4, variance 13.
    np.testing.assert_allclose(state.obs, [4 / np.sqrt(13)] * 3, rtol=1e-6)
    assert int(state.obs_scale.count) == 3


def test_a_lost_life_leaves_the_stack_as_it_is():
    goes_on, lost = (played(1.0, said(3.0), said(5.0, terminated=t))[-1].obs for t in (False, True))
    np.testing.assert_array_equal(goes_on, lost)


def test_an_engine_is_given_frames_and_refuses_stacks():
    spec = EnvSpec("probe", (3,), ("a", "b"), frames=3)
    engine = ReferenceEngine(AGENT, spec, seed=0, steps=10)
    engine.begin(np.array([1.0]))
    engine.learn(said(3.0))
    np.testing.assert_allclose(engine.state.obs, [0, 0, 1 / np.sqrt(2)], rtol=1e-6)
    with pytest.raises(EnvironmentFault, match=r"has shape \(3,\), not \(1,\)"):
        engine.learn(said(3.0)._replace(successor=np.zeros(3)))


def test_a_saved_stack_comes_back():
    spec = EnvSpec("probe", (3,), ("a", "b"), frames=3)
    engine, other = (ReferenceEngine(AGENT, spec, seed=0, steps=10) for _ in range(2))
    engine.begin(np.array([1.0]))
    for x in (3.0, 5.0):
        engine.learn(said(x))
    other.restore(engine.save())
    for each in (engine, other):
        each.learn(said(2.0))
    np.testing.assert_array_equal(engine.state.obs, other.state.obs)


def test_a_stack_must_have_whole_frames():
    assert EnvSpec("probe", (84, 84, 4), ("a",), frames=4).frame_shape == (84, 84, 1)
    with pytest.raises(ValueError, match=r"\(84, 84, 4\) is no stack of 3 frames"):
        EnvSpec("probe", (84, 84, 4), ("a",), frames=3)
