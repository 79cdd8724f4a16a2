"""Both engines against the definition in double precision, in a process of its own (double precision is a switch of the
whole process). Prints, as JSON, the median over steps and arrays of each engine's relative error, and the largest."""

from __future__ import annotations

import json
import sys

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from headrace.agents import BySuite, agent_named  # noqa: E402
from headrace.engines.reference import stream  # noqa: E402
from headrace.engines.reference.agent import Draws, learn  # noqa: E402
from headrace.engines.reference.arrays import named_arrays  # noqa: E402
from headrace.engines.reference.auxiliary import draws_needed  # noqa: E402
from headrace.engines.reference.transition import Transition  # noqa: E402
from headrace.normalize import include_reward, scaled_reward  # noqa: E402
from tests.engines.fast.support import QUICK, SUITES, engines, experience, on, spec_of  # noqa: E402


def single(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, tree)


def draw_in_single(agent, key):
    """Random numbers are defined in single precision."""
    u = jax.random.uniform(key, (3 + draws_needed(agent.aux),), jnp.float32)
    return Draws(explore=u[0], action=u[1], replay=u[2], aux=u[3:])


stream.draw_step = draw_in_single


def double(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, tree)


def transition_of(state, timestep, gamma):
    """What the stream makes of an answer, in single precision: the input that all three are given."""
    _, frame = stream._observe(state.obs_scale, timestep.successor)
    scale = include_reward(state.reward_scale, timestep.reward, timestep.last, np.float32(gamma))
    return Transition(
        state.obs, state.choice.action, scaled_reward(scale, timestep.reward, jnp), stream._followed(state.obs, frame),
        timestep.terminated, timestep.truncated, timestep.last, state.choice.greedy,
    )  # fmt: skip


def errors(got, wanted):
    return [
        float(np.linalg.norm(np.asarray(got[name], np.float64) - truth) / np.linalg.norm(truth))
        for name, truth in wanted.items()
        if truth.dtype == np.float64 and np.linalg.norm(truth) > 0
    ]


def compared(name, suite, steps):
    agent, spec = on(agent_named(name), BySuite()), spec_of(SUITES[suite])
    reference, fast = engines(agent, spec)
    exactly = jax.jit(learn, static_argnums=1, compiler_options=QUICK)
    first, answers = experience(spec.frame_shape, steps)
    reference.begin(first)
    fast.begin(first)
    reference.state = single(reference.state)
    reference.restore(fast.save())
    found = {"fast": [], "reference": []}
    for timestep in answers:
        state = reference.state
        fast.restore(reference.save())
        draws = double(draw_in_single(agent, stream.step_keys(reference.setting, state.agent.step).agent))
        seen = double(jax.tree.map(jnp.asarray, transition_of(state, timestep, agent.td.gamma)))
        truth, _ = exactly(agent, reference.layout, double(state.agent), seen, draws)
        wanted = named_arrays("stream/agent", truth)
        reference.learn(timestep)
        reference.state = single(reference.state)
        fast.learn(timestep)
        found["fast"] += errors(fast.save(), wanted)
        found["reference"] += errors(reference.save(), wanted)
    return {who: {"median": float(np.median(e)), "largest": max(e)} for who, e in found.items()}


if __name__ == "__main__":
    print(json.dumps(compared(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
