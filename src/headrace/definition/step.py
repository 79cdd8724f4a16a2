"""One agent on one stream: choose an action, learn from what it led to. Pure functions of state and draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import ActorCritic, Agent, EpsilonGreedy, Unfiltered
from headrace.definition.auxiliary import aux_metrics, follow_aux, init_aux, update_aux
from headrace.definition.evaluate import Values, actor_modules, evaluate, value_modules
from headrace.definition.filters import filter_gradient, init_filter
from headrace.definition.merging import init_merge, merge_updates
from headrace.definition.networks import ByAction, Layout, Modules, by_action, init_params, outputs, q_values
from headrace.definition.policies import (
    Gaussian,
    Softmax,
    epsilon_greedy,
    greedy_action,
    policy_of,
    preferences,
    sample,
)
from headrace.definition.rules import actor_critic, dqn, qrc, sarsa, stream_q  # noqa: F401 - so that they are known
from headrace.definition.td import follow_td, init_td, replay, update_td, without_traces
from headrace.definition.transition import ActionDraws, Draws, StepContext, Transition
from headrace.definition.trees import Tree, add
from headrace.definition.windows import emptied


class AgentState(NamedTuple):
    """All that learning changes."""

    params: Modules
    td: Tree
    td_history: Tree
    aux: Tree
    merge: Tree
    step: jax.Array  # transitions learnt from


class Choice(NamedTuple):
    action: jax.Array
    greedy: jax.Array


class Learnt(NamedTuple):
    """What one step of learning says of itself."""

    always: dict[str, jax.Array]  # quantities of every step
    active: jax.Array  # whether the auxiliary learnt
    aux: dict[str, jax.Array]  # quantities of the steps where it did


def example(layout: Layout) -> Transition:
    """A transition of zeros, for its shapes."""
    obs, no = jnp.zeros(layout.observation_shape, jnp.float32), jnp.bool_(False)
    action = jnp.zeros(layout.n_actions, jnp.float32) if layout.box else jnp.int32(0)
    return Transition(obs, action, jnp.float32(0), obs, no, no, no, no)


def init_agent(agent: Agent, layout: Layout, key: jax.Array) -> AgentState:
    """The agent before its first step: parameters drawn from the key, everything else empty."""
    params = init_params(agent, layout, key)
    aux_modules = {name: params[name] for name in agent.aux.modules()}
    td_modules = {**value_modules(params), **{n: p for n, p in params.items() if n not in aux_modules}}
    td = init_td(agent.td, params, example(layout))
    if not hasattr(td, "_fields"):
        raise TypeError(f"init_td must return a NamedTuple, for {agent.td!r} it returned {type(td).__name__}")
    return AgentState(
        params=params,
        td=td,
        td_history=init_filter(agent.td_filter, value_modules(params)),
        aux=init_aux(agent.aux, params, example(layout)),
        merge=init_merge(agent.merge, td_modules, aux_modules),
        step=jnp.int32(0),
    )


def draw_step(agent: Agent, layout: Layout, key: jax.Array, next_key: jax.Array) -> Draws:
    """All of a step's random numbers in one call; and those of the next step's action, for a rule that looks ahead."""
    drawn = _drawn(agent, layout, key)
    if not agent.td.looks_ahead:
        return drawn
    following = _drawn(agent, layout, next_key)
    return drawn._replace(ahead=ActionDraws(following.explore, following.action))


def _drawn(agent: Agent, layout: Layout, key: jax.Array) -> Draws:
    n = 3 + agent.aux.draws()
    m = n + agent.td.draws()
    u = jax.random.uniform(key, (m + (2 * layout.n_actions if agent.td.has_policy else 0),))
    return Draws(explore=u[0], action=u[1], replay=u[2], aux=u[3:n], rule=u[n:m], policy=u[m:].reshape(-1, 2))


@singledispatch
def epsilon(explore: Any, step: Any, total: Any) -> jax.Array:
    """The probability of a random action at a step of a run of `total` steps."""
    raise TypeError(f"no exploration {explore!r}")


@epsilon.register
def _(explore: EpsilonGreedy, step: Any, total: Any) -> jax.Array:
    """Falls linearly from start to end over the first `fraction` of `total` steps, and stays there."""
    span = explore.fraction * total
    done = jnp.where(step < span, step / jnp.maximum(span, 1), 1)
    return explore.start + (explore.end - explore.start) * done


@singledispatch
def explored(explore: Any, q: ByAction, eps: jax.Array, draws: Draws) -> jax.Array:
    """The action to take: any with probability eps, else the best one."""
    return epsilon_greedy(q, eps, ActionDraws(draws.explore, draws.action))


def act(agent: Agent, layout: Layout, params: Modules, obs: jax.Array, eps: Any, draws: Draws) -> Choice:
    """An action for the observation, and whether it is the agent's own: the best one, or one drawn from its policy.

    Args:
      eps: the probability of a random action, which counts as the agent's own where it is the same one.
      draws: the step's random numbers.
    """
    return chosen_by(acts_by(agent.td, layout, params, obs), agent, eps, draws)


@singledispatch
def acts_by(rule: Any, layout: Layout, params: Modules, obs: jax.Array) -> ByAction | Softmax | Gaussian:
    """What a rule acts by at an observation: Q(s, .)."""
    return by_action(layout, q_values(layout, params, obs))


@acts_by.register
def _(rule: ActorCritic, layout: Layout, params: Modules, obs: jax.Array) -> Softmax | Gaussian:
    """pi(.|s)."""
    return policy_of(layout, outputs(layout, actor_modules(params), obs))


@singledispatch
def chosen_by(values: Any, agent: Agent, eps: Any, draws: Draws) -> Choice:
    """The best action by these values, but for exploration."""
    action = explored(agent.explore, values, eps, draws)
    return Choice(action, action == greedy_action(values))


@chosen_by.register
def _(policy: Softmax, agent: Agent, eps: Any, draws: Draws) -> Choice:
    """An action drawn from the policy, but for exploration on top of it."""
    return chosen_by(preferences(policy, draws.policy[:, 0]), agent, eps, draws)


@chosen_by.register
def _(policy: Gaussian, agent: Agent, eps: Any, draws: Draws) -> Choice:
    """The same; finite whatever has become of the parameters: that is watched where it is learnt from."""
    at_random, own = draws.explore < eps, sample(policy, draws.policy[:, 0])
    action = jnp.where(at_random, 2 * draws.policy[:, 1] - 1, own)
    return Choice(jnp.where(policy.valid & jnp.isfinite(action), action, 0), ~at_random)


def broken_off(state: AgentState) -> AgentState:
    """The agent when its episode ends without a last step: traces zero and the window empty, nothing learnt."""
    aux = state.aux._replace(window=emptied(state.aux.window)) if hasattr(state.aux, "window") else state.aux
    return state._replace(td=without_traces(state.td), aux=aux)


def learn(
    agent: Agent,
    layout: Layout,
    state: AgentState,
    transition: Transition,
    eps: Any,
    draws: Draws,
    values_of: Callable[..., Values] = evaluate,
) -> tuple[AgentState, Learnt]:
    """Both streams read the parameters of now; one combined update is added to them.

    Args:
      transition: what the last action led to.
      eps: the probability of a random action at this step.
      draws: the step's random numbers.
      values_of: computes what `evaluate` says.

    Returns:
      The agent after the step, and what the step says of itself.
    """
    context = StepContext(state.step, eps, draws)
    recalled, td_state = replay(agent.td, state.td, transition, draws.replay)
    values = values_of(agent.td, layout, state.params, td_state, recalled, context)
    td = update_td(agent.td, values, state.params, td_state, recalled, context)
    filtered, td_history = filter_gradient(agent.td_filter, value_modules(td.updates), state.td_history)
    td_updates = {**td.updates, **filtered}
    direction = td.direction if isinstance(agent.td_filter, Unfiltered) else filtered  # of the update that is applied
    aux = update_aux(agent.aux, layout, state.params, state.aux, transition, context)
    updates, merge = merge_updates(agent.merge, td_updates, aux.updates, direction, state.merge)
    params, step = add(state.params, updates), state.step + 1
    td_state, aux_state = follow_td(agent.td, td.state, params, step), follow_aux(agent.aux, aux.state, params, step)
    after = AgentState(params, td_state, td_history, aux_state, merge, step)
    return after, Learnt(td.metrics, aux.active, aux_metrics(agent.aux, aux, td_updates))
