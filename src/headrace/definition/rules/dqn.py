"""Streaming DQN, with or without a small replay memory."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Dqn, Latest, Replay
from headrace.definition.evaluate import Values, value_modules
from headrace.definition.filters import guarded
from headrace.definition.networks import Modules
from headrace.definition.targets import init_target
from headrace.definition.td import TdStep, discount, init_td, overshoot, replay, td_error, td_metrics, update_td
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, scale


class DqnState(NamedTuple):
    memory: Tree
    target: Tree


@init_td.register
def _(rule: Dqn, params: Modules, transition: Transition) -> DqnState:
    return DqnState(init_memory(rule.memory, transition), init_target(rule.target, value_modules(params)))


@replay.register
def _(rule: Dqn, state: DqnState, t: Transition, draw: jax.Array) -> tuple[Transition, DqnState]:
    learnt, memory = recall(rule.memory, state.memory, t, draw)
    return learnt, state._replace(memory=memory)


@update_td.register
def _(rule: Dqn, values: Values, params: Modules, state: DqnState, t: Transition, context: StepContext) -> TdStep:
    """theta += alpha delta g_q, where delta = r + gamma max Q'(s', .) - Q(s, a) and Q' is the target."""
    gradient, acts = guarded(rule.guard, values.q.gradient)
    delta = td_error(values.q.value, t.reward, discount(rule.gamma, t), values.v.value)
    updates = scale(rule.lr * delta, gradient)
    metrics = {
        **td_metrics(delta, values.q, updates),
        "overshoot": overshoot(rule, 0, gradient),
        "guarded": jnp.float32(acts),
    }
    return TdStep(updates, state, gradient, metrics)


@singledispatch
def init_memory(memory: Any, transition: Transition) -> Tree:
    return ()


@init_memory.register
def _(memory: Replay, transition: Transition) -> Tree:
    stored = jax.tree.map(lambda x: jnp.zeros((memory.size, *jnp.shape(x)), jnp.asarray(x).dtype), transition)
    return {"stored": stored, "inserted": jnp.int32(0)}


@singledispatch
def recall(memory: Any, state: Tree, transition: Transition, draw: jax.Array) -> tuple[Transition, Tree]:
    """The transition to learn from, after the present one was stored; `draw` is uniform in [0, 1)."""
    raise TypeError(f"no memory {memory!r}")


@recall.register
def _(memory: Latest, state: Tree, transition: Transition, draw: jax.Array) -> tuple[Transition, Tree]:
    return transition, state


@recall.register
def _(memory: Replay, state: Tree, transition: Transition, draw: jax.Array) -> tuple[Transition, Tree]:
    slot = state["inserted"] % memory.size
    stored = jax.tree.map(lambda many, one: many.at[slot].set(one), state["stored"], transition)
    filled = jnp.minimum(state["inserted"] + 1, memory.size)
    drawn = jnp.minimum((draw * filled).astype(jnp.int32), filled - 1)
    # Counting on is exact for ever: only the remainder and whether the memory is full matter.
    inserted = jnp.where(state["inserted"] + 1 >= 2 * memory.size, memory.size, state["inserted"] + 1)
    return jax.tree.map(lambda many: many[drawn], stored), {"stored": stored, "inserted": inserted}
