"""One agent on one stream: choose an action, learn from what it led to. Pure functions of state and draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Agent, EpsilonGreedy
from headrace.definition import rules  # noqa: F401 - so that they are known
from headrace.definition.auxiliary import aux_metrics, draws_needed, follow_aux, init_aux, update_aux
from headrace.definition.evaluate import evaluate, value_modules
from headrace.definition.filters import filter_gradient, init_filter
from headrace.definition.merging import init_merge, merge_updates
from headrace.definition.networks import Layout, Modules, init_params, q_values
from headrace.definition.objectives import learnt_modules
from headrace.definition.td import follow_td, init_td, replay, update_td, without_traces
from headrace.definition.transition import Transition
from headrace.definition.trees import Tree, add
from headrace.definition.windows import emptied


class AgentState(NamedTuple):
    """Everything an agent knows."""

    params: Modules
    td: Tree
    td_history: Tree
    aux: Tree
    merge: Tree
    step: jax.Array  # transitions learnt from


class Draws(NamedTuple):
    """Everything random in one step, drawn beforehand so that two engines given the same draws must agree."""

    explore: jax.Array  # uniform: explore where it is below epsilon
    action: jax.Array  # uniform: which action, when exploring
    replay: jax.Array  # uniform: which stored transition
    aux: jax.Array  # uniform numbers, as many as the auxiliary needs


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
    return Transition(obs, jnp.int32(0), jnp.float32(0), obs, no, no, no, no)


def init_agent(agent: Agent, layout: Layout, key: jax.Array) -> AgentState:
    params = init_params(agent, layout, key)
    aux_modules = _aux_modules(agent)
    td_updates = {**value_modules(params), **{n: p for n, p in params.items() if n.startswith("h_")}}
    return AgentState(
        params=params,
        td=init_td(agent.td, params, example(layout)),
        td_history=init_filter(agent.td_filter, value_modules(params)),
        aux=init_aux(agent.aux, params, example(layout)),
        merge=init_merge(agent.merge, td_updates, {n: params[n] for n in aux_modules}),
        step=jnp.int32(0),
    )


def _aux_modules(agent: Agent) -> tuple[str, ...]:
    return learnt_modules(agent.aux.objective) if hasattr(agent.aux, "objective") else ()


def draw_step(agent: Agent, key: jax.Array) -> Draws:
    """All of a step's random numbers in one call."""
    u = jax.random.uniform(key, (3 + draws_needed(agent.aux),))
    return Draws(explore=u[0], action=u[1], replay=u[2], aux=u[3:])


def epsilon(explore: EpsilonGreedy, step: Any, total: Any) -> jax.Array:
    """Falls linearly from start to end over the first `fraction` of `total` steps, and stays there."""
    span = explore.fraction * total
    done = jnp.where(step < span, step / jnp.maximum(span, 1), 1)
    return explore.start + (explore.end - explore.start) * done


def act(layout: Layout, params: Modules, obs: jax.Array, eps: jax.Array, draws: Draws) -> Choice:
    """A random action with probability eps, else the best one. A random draw of the best one counts as greedy."""
    best = jnp.argmax(q_values(layout, params, obs)).astype(jnp.int32)
    any_action = jnp.minimum((draws.action * layout.actions).astype(jnp.int32), layout.actions - 1)
    action = jnp.where(draws.explore < eps, any_action, best)
    return Choice(action, action == best)


def broken_off(state: AgentState) -> AgentState:
    """The agent when its episode ends without a last step: traces zero and the window empty, nothing learnt."""
    aux = state.aux._replace(window=emptied(state.aux.window)) if hasattr(state.aux, "window") else state.aux
    return state._replace(td=without_traces(state.td), aux=aux)


def learn(
    agent: Agent, layout: Layout, state: AgentState, transition: Transition, draws: Draws
) -> tuple[AgentState, Learnt]:
    """Both streams read the parameters of now; one combined update is added to them."""
    recalled, td_state = replay(agent.td, state.td, transition, draws.replay)
    values = evaluate(agent.td, layout, state.params, td_state.target, recalled)
    td = update_td(agent.td, values, state.params, td_state, recalled)
    filtered, td_history = filter_gradient(agent.td_filter, value_modules(td.updates), state.td_history)
    td_updates = {**td.updates, **filtered}
    aux = update_aux(agent.aux, layout, state.params, state.aux, transition, draws.aux, state.step)
    updates, merge = merge_updates(agent.merge, td_updates, aux.updates, td.direction, state.merge)

    params = add(state.params, updates)
    step = state.step + 1
    after = AgentState(
        params=params,
        td=follow_td(agent.td, td.state, params, step),
        td_history=td_history,
        aux=follow_aux(agent.aux, aux.state, params, step),
        merge=merge,
        step=step,
    )
    return after, Learnt(td.metrics, aux.active, aux_metrics(agent.aux, aux, td_updates))
