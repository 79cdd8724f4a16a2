"""One stream of experience through one agent: normalise, learn, choose, keep account.

The state already holds the next action. A step is: the environment takes it, `advance` makes of what it led to the next
state. Everything random follows from the stream's seed and the number of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.definition.evaluate import Values, evaluate
from headrace.definition.networks import Layout
from headrace.definition.step import (
    AgentState,
    Choice,
    Learnt,
    act,
    broken_off,
    draw_step,
    epsilon,
    example,
    init_agent,
    learn,
)
from headrace.definition.transition import Draws, Transition
from headrace.definition.trees import choose
from headrace.engines.jax.arrays import register_parts
from headrace.engines.jax.sight import none_seen, seen_with, sight
from headrace.engines.metrics import watched
from headrace.envs.base import TimeStep
from headrace.normalize import (
    Moments,
    RewardScale,
    empty_moments,
    empty_reward_scale,
    include,
    include_reward,
    limited,
    scaled_reward,
    standardised,
)

ValuesOf = Callable[..., Values]  # what computes the values of a transition


class Tally(NamedTuple):
    """Sums over the steps since the last report, and the first quantity that was not finite."""

    steps: jax.Array
    active_steps: jax.Array
    sums: dict[str, jax.Array]
    aux_sums: dict[str, jax.Array]
    bad_step: jax.Array  # -1 while everything is finite
    bad_quantity: jax.Array  # number of the quantity, in the order of `quantities`


class StreamState(NamedTuple):
    agent: AgentState
    obs_scale: Moments
    reward_scale: RewardScale
    obs: jax.Array  # normalised and stacked
    choice: Choice  # what the agent does next
    episode_return: jax.Array
    episode_length: jax.Array
    tally: Tally
    seen: jax.Array  # observations that sight is measured on


class Finished(NamedTuple):
    """What is to be reported of a step: whether an episode ended there, and how it went."""

    ended: jax.Array
    episode_return: jax.Array
    episode_length: jax.Array


class Setting(NamedTuple):
    """What a stream is given and does not change: the agent's numbers, the seed's key, the length of the run."""

    agent: Agent
    key: jax.Array
    total_steps: jax.Array


def make_setting(agent: Agent, seed: int, total_steps: int) -> Setting:
    register_parts()  # of somebody else's package
    return Setting(agent, jax.random.key(seed, impl="threefry2x32"), jnp.float32(total_steps))


class Keys(NamedTuple):
    agent: jax.Array
    env: jax.Array


def step_keys(setting: Setting, step: jax.Array) -> Keys:
    """The keys of a step, 0 being the very beginning."""
    return Keys(*jax.random.split(jax.random.fold_in(setting.key, step)))


def _observe(agent: Agent, scale: Moments, frame: Any) -> tuple[Moments, jax.Array]:
    """The statistics take the frame in before it is standardised by them, and limited as the agent asks."""
    scale = include(scale, frame)
    return scale, limited(agent.observations, standardised(scale, frame, jnp), jnp)


def _first(layout: Layout, frame: jax.Array) -> jax.Array:
    """An episode's first observation: its first frame, as often as frames are stacked."""
    return jnp.concatenate([frame] * layout.frames, axis=-1)


def _followed(obs: jax.Array, frame: jax.Array) -> jax.Array:
    """The observation after `obs`: its oldest frame goes, the new one comes last. A single frame is replaced."""
    return jnp.concatenate([obs[..., frame.shape[-1] :], frame], axis=-1)


def _draws(setting: Setting, layout: Layout, agent: AgentState) -> Draws:
    keys = (step_keys(setting, agent.step + ahead).agent for ahead in (0, 1))
    return draw_step(setting.agent, layout, *keys)


def _choose(setting: Setting, layout: Layout, agent: AgentState, obs: jax.Array) -> Choice:
    draws = _draws(setting, layout, agent)
    eps = epsilon(setting.agent.explore, agent.step, setting.total_steps)
    return act(setting.agent, layout, agent.params, obs, eps, draws)


def begin(setting: Setting, layout: Layout, obs: jax.Array) -> StreamState:
    """The state before the first step, from the environment's first observation."""
    agent = init_agent(setting.agent, layout, jax.random.fold_in(setting.key, 2**31 - 1))
    obs_scale, frame = _observe(setting.agent, empty_moments(layout.frame_shape, jnp), obs)
    normal = _first(layout, frame)
    choice = _choose(setting, layout, agent, normal)
    nothing = jnp.float32(0)
    return StreamState(
        agent, obs_scale, empty_reward_scale(jnp), normal, choice, nothing, jnp.int32(0), empty_tally(setting, layout),
        none_seen(layout),
    )  # fmt: skip


def restarted(setting: Setting, layout: Layout, state: StreamState, obs: jax.Array) -> StreamState:
    """The state at the start of another episode, the present one having been broken off: nothing is learnt from it."""
    obs_scale, frame = _observe(setting.agent, state.obs_scale, obs)
    nothing = jnp.float32(0)
    after = state._replace(
        agent=broken_off(state.agent),
        obs_scale=obs_scale,
        reward_scale=state.reward_scale._replace(discounted=nothing),
        obs=_first(layout, frame),
        episode_return=nothing,
        episode_length=jnp.int32(0),
    )
    return chosen(setting, layout, after)


def chosen(setting: Setting, layout: Layout, state: StreamState) -> StreamState:
    """The state with the action that the agent takes next: it follows from all the rest."""
    return state._replace(choice=_choose(setting, layout, state.agent, state.obs))


def advance(
    setting: Setting, layout: Layout, state: StreamState, timestep: TimeStep, values_of: ValuesOf = evaluate
) -> tuple[StreamState, Finished]:
    """Learns from what the chosen action led to, and chooses the next one."""
    state, finished = learnt_from(setting, layout, state, timestep, values_of)
    return chosen(setting, layout, state), finished


def learnt_from(
    setting: Setting, layout: Layout, state: StreamState, timestep: TimeStep, values_of: ValuesOf = evaluate
) -> tuple[StreamState, Finished]:
    """Learns from what the chosen action led to; the choice is still the old one."""
    obs_scale, frame = _observe(setting.agent, state.obs_scale, timestep.successor)
    next_obs = _followed(state.obs, frame)
    reward_scale = include_reward(state.reward_scale, timestep.reward, timestep.last, setting.agent.td.gamma)
    restarted, first_frame = _observe(setting.agent, obs_scale, timestep.obs)
    obs_scale, obs = choose(timestep.last, (restarted, _first(layout, first_frame)), (obs_scale, next_obs))
    transition = Transition(
        obs=state.obs,
        action=state.choice.action,
        reward=scaled_reward(reward_scale, timestep.reward, jnp),
        next_obs=next_obs,
        terminated=timestep.terminated,
        truncated=timestep.truncated,
        last=timestep.last,
        greedy=state.choice.greedy,
    )
    eps = epsilon(setting.agent.explore, state.agent.step, setting.total_steps)
    draws = _draws(setting, layout, state.agent)
    agent, learnt = learn(setting.agent, layout, state.agent, transition, eps, draws, values_of)
    learnt = learnt._replace(always={**learnt.always, "epsilon": eps, "reward": timestep.reward})
    finished = Finished(timestep.last, state.episode_return + timestep.reward, state.episode_length + 1)
    after = StreamState(
        agent=agent,
        obs_scale=obs_scale,
        reward_scale=reward_scale,
        obs=obs,
        choice=state.choice,
        episode_return=jnp.where(timestep.last, 0, finished.episode_return),
        episode_length=jnp.where(timestep.last, 0, finished.episode_length),
        tally=_counted(state.tally, learnt, agent.step),
        seen=seen_with(state.seen, state.obs, state.agent.step),
    )
    return after, finished


def empty_tally(setting: Setting, layout: Layout) -> Tally:
    learnt = jax.eval_shape(lambda: _example_learnt(setting, layout))
    beside = {"epsilon": 0.0, "reward": 0.0}
    sums, aux_sums = jax.tree.map(lambda _: jnp.float32(0), ({**learnt.always, **beside}, learnt.aux))
    return Tally(jnp.int32(0), jnp.int32(0), sums, aux_sums, jnp.int32(-1), jnp.int32(-1))


def _example_learnt(setting: Setting, layout: Layout) -> Learnt:
    key = jax.random.key(0, impl="threefry2x32")
    state = init_agent(setting.agent, layout, key)
    draws = draw_step(setting.agent, layout, key, key)
    return learn(setting.agent, layout, state, example(layout), jnp.float32(0), draws)[1]


def quantities(tally: Tally) -> list[str]:
    """Names of the quantities whose finiteness is watched, in the order of `bad_quantity`."""
    return watched((*tally.sums, *tally.aux_sums))


def trouble_in(tally: Tally) -> tuple[str, int] | None:
    """The first quantity that was not finite and the step it happened at, if any."""
    step = int(tally.bad_step)
    return None if step < 0 else (quantities(tally)[int(tally.bad_quantity)], step)


def report(tally: Tally) -> tuple[dict[str, float], Tally]:
    """Means over the steps counted, those of the auxiliary over the steps on which it learnt; and an empty tally."""
    cleared = jax.tree.map(jnp.zeros_like, tally)._replace(bad_step=tally.bad_step, bad_quantity=tally.bad_quantity)
    return {name: float(mean) for name, mean in means(jax.device_get(tally)).items()}, cleared


def sight_now(layout: Layout, state: StreamState) -> dict[str, jax.Array]:
    """How well the agent sees with its present parameters."""
    return sight(layout, state.agent.params, state.seen, state.agent.step)


_sight_now = jax.jit(sight_now, static_argnums=0)


def sight_told(layout: Layout, state: StreamState) -> dict[str, float]:
    """The same as numbers."""
    return {name: float(value) for name, value in jax.device_get(_sight_now(layout, state)).items()}


def means(tally: Tally) -> dict[str, np.ndarray]:
    """The same of a tally on the host, which may be of many streams."""
    always = {name: _ratio(total, tally.steps) for name, total in sorted(tally.sums.items())}
    beside = {name: _ratio(total, tally.active_steps) for name, total in sorted(tally.aux_sums.items())}
    return {**always, **beside, **({"aux_active": _ratio(tally.active_steps, tally.steps)} if beside else {})}


def _ratio(total: Any, count: Any) -> np.ndarray:
    return np.where(count > 0, np.asarray(total, np.float64) / np.maximum(count, 1), np.nan)


def _counted(tally: Tally, learnt: Learnt, step: jax.Array) -> Tally:
    found = {**learnt.always, **learnt.aux}
    bad = ~jnp.isfinite(jnp.stack([found[name] for name in quantities(tally)]))
    first = jnp.any(bad) & (tally.bad_step < 0)
    return Tally(
        steps=tally.steps + 1,
        active_steps=tally.active_steps + learnt.active,
        sums=jax.tree.map(jnp.add, tally.sums, learnt.always),
        aux_sums=jax.tree.map(lambda s, x: s + jnp.where(learnt.active, x, 0), tally.aux_sums, learnt.aux),
        bad_step=jnp.where(first, step, tally.bad_step),
        bad_quantity=jnp.where(first, jnp.argmax(bad).astype(jnp.int32), tally.bad_quantity),
    )
