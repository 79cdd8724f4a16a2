"""The definition in double precision: one step of the reference engine's `learn` from a state in single precision.

Everything that comes into the step (state, transition, random numbers) is what both engines are given; only what is
computed from it is in double precision.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from headrace.agents import Agent
from headrace.definition.step import learn
from headrace.definition.transition import Transition
from headrace.engines.jax import stream
from headrace.engines.jax.arrays import named_arrays
from headrace.envs.base import TimeStep
from headrace.normalize import include_reward, scaled_reward
from tests.engines.learner.support import QUICK, Reference

_learn = jax.jit(learn, static_argnums=1, compiler_options=QUICK)


def double(tree: Any) -> Any:
    """Single precision made double; whole numbers stay as they are."""
    arrays = jax.tree.map(np.asarray, tree)
    return jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, arrays)


def transition_of(state: Any, timestep: TimeStep, agent: Agent) -> Transition:
    """What the stream makes of an answer, in single precision: the input that all three are given."""
    import jax.numpy as jnp

    _, frame = stream._observe(agent, state.obs_scale, timestep.successor)
    scale = include_reward(state.reward_scale, timestep.reward, timestep.last, np.float32(agent.td.gamma))
    return Transition(
        state.obs, state.choice.action, scaled_reward(scale, timestep.reward, jnp), stream._followed(state.obs, frame),
        timestep.terminated, timestep.truncated, timestep.last, state.choice.greedy,
    )  # fmt: skip


ROUNDINGS = 8  # in single precision a sum of hundreds of terms is off by about so many roundings of one of them


def shaken(tree: Any, random: np.random.Generator) -> Any:
    """The same numbers, each off by as much as single precision lets what is computed from it be, at random."""
    spread = ROUNDINGS * np.finfo(np.float32).eps
    return jax.tree.map(
        lambda x: x * (1 + spread * random.uniform(-1, 1, x.shape)) if x.dtype == np.float64 else x, tree
    )


def true_state(
    reference: Reference, agent: Agent, timestep: TimeStep, random: np.random.Generator | None = None
) -> dict[str, np.ndarray]:
    """The agent's state after this answer, in double precision, by the names of a saved state; its metrics as `learnt`.

    With a generator, from weights and an observation that are shaken in their last digits.
    """
    state = reference.state
    key = stream.step_keys(reference.setting, state.agent.step).agent
    draws = double(stream.draw_step(agent, reference.layout, key, key))
    seen, before = double(transition_of(state, timestep, agent)), double(state.agent)
    if random is not None:
        before = before._replace(params=shaken(before.params, random))
        seen = seen._replace(obs=shaken(seen.obs, random), next_obs=shaken(seen.next_obs, random))
    eps = stream.epsilon(agent.explore, state.agent.step, reference.setting.total_steps)
    with jax.enable_x64(True):
        after, learnt = _learn(agent, reference.layout, before, seen, double(eps), draws)
        found = {**named_arrays("stream/agent", after), **named_arrays("learnt", (learnt.always, learnt.aux))}
    assert any(array.dtype == np.float64 for array in found.values())
    return found
