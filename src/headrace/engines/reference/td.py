"""The three value-learning rules. An update is what is added to the parameters."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Dqn, Latest, Qrc, Replay, StreamQ
from headrace.engines.reference.guard import guarded
from headrace.engines.reference.networks import Layout, Modules, q_values
from headrace.engines.reference.targets import follow, init_target, read_target
from headrace.engines.reference.transition import Transition
from headrace.engines.reference.trees import Tree, choose, dot, norm1, norm2, scale, zeros

VALUE_MODULES = ("encoder", "projection", "head")


class TdStep(NamedTuple):
    """What a rule makes of one transition."""

    updates: Modules
    state: Tree
    direction: Modules  # what the update of the value modules is proportional to, whatever the TD error
    metrics: dict[str, jax.Array]


class TraceState(NamedTuple):
    trace: Modules
    target: Tree


class QrcState(NamedTuple):
    h_trace: jax.Array
    h_grad_trace: Modules
    q_grad_trace: Modules
    target: Tree


class DqnState(NamedTuple):
    memory: Tree
    target: Tree


def value_modules(params: Modules, prefix: str = "") -> Modules:
    return {name: params[prefix + name] for name in VALUE_MODULES}


def td_error(q_tm1: Any, r_t: Any, discount_t: Any, v_t: Any) -> Any:
    return r_t + discount_t * v_t - q_tm1


def discount(gamma: Any, transition: Transition) -> jax.Array:
    """gamma, or 0 where the episode terminated; truncation does not stop the bootstrap."""
    return gamma * (1 - transition.terminated)


def cuts_trace(transition: Transition) -> jax.Array:
    return transition.terminated | transition.truncated | ~transition.greedy


def decayed(rule: StreamQ | Qrc, trace: Tree, new: Tree) -> Tree:
    """gamma lambda z + new."""
    keep = rule.gamma * rule.lamda
    return jax.tree.map(lambda z, x: keep * z + x, trace, new)


def q_and_gradient(layout: Layout, modules: Modules, t: Transition) -> tuple[jax.Array, Modules]:
    def q(w: Modules) -> jax.Array:
        return q_values(layout, w, t.obs)[t.action]

    return jax.value_and_grad(q)(modules)


def best_next(layout: Layout, modules: Modules, t: Transition) -> jax.Array:
    return best(q_values(layout, modules, t.next_obs))


def best(q: jax.Array) -> jax.Array:
    """max Q, with the gradient of the first action that has it.

    The gradient of `max` asks where Q equals its maximum. A compiler may compute Q twice, once for either side, and
    round the two differently: then nothing is equal, and the gradient is silently zero (decision 0023).
    """
    return jnp.sum(jnp.where(jnp.arange(q.size) == jnp.argmax(q), q, 0))


def _bootstrap(rule: Dqn | StreamQ, layout: Layout, weights: Modules, state: Any, t: Transition) -> jax.Array:
    """max Q(s', .) of the target, which takes no gradient."""
    target = read_target(rule.target, state.target, weights)
    return best_next(layout, target, t)


def overshoot(rule: Dqn | StreamQ | Qrc, lamda: Any, gradient: Modules) -> jax.Array:
    """alpha ||grad Q||^2 / (1 - gamma lambda): a plain TD step overshoots where this exceeds 2."""
    return rule.lr * dot(gradient, gradient) / (1 - rule.gamma * lamda)


def _metrics(delta: Any, q: Any, gradient: Modules, updates: Modules) -> dict[str, jax.Array]:
    return {
        "td_error": jnp.abs(delta),
        "q": q,
        "q_gradient_norm": norm2(gradient),
        "td_update_norm": norm2(value_modules(updates)),
    }


@singledispatch
def init_td(rule: Any, params: Modules, transition: Transition) -> Tree:
    """The rule's state before the first step; `transition` is an example that gives shapes."""
    raise TypeError(f"no value-learning rule for {rule!r}")


@singledispatch
def update_td(rule: Any, layout: Layout, params: Modules, state: Any, t: Transition, draws: Any) -> TdStep:
    """The rule's update for one transition; all reads are of the parameters before it."""
    raise TypeError(f"no value-learning rule for {rule!r}")


def follow_td(rule: Dqn | StreamQ | Qrc, state: Any, params: Modules, step: jax.Array) -> Any:
    """The rule's state once the parameters have moved: its target network follows them."""
    return state._replace(target=follow(rule.target, state.target, value_modules(params), step))


def without_traces(state: Any) -> Any:
    """The rule's state with its traces zero, as after the end of an episode; target and memory stay."""
    return state._replace(**{name: zeros(trace) for name, trace in traces_of(state).items()})


def traces_of(state: Any) -> dict[str, Tree]:
    return {name: getattr(state, name) for name in state._fields if name.endswith("trace")}


# Streaming DQN --------------------------------------------------------------------------------------------------------


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


@init_td.register
def _(rule: Dqn, params: Modules, transition: Transition) -> DqnState:
    return DqnState(init_memory(rule.memory, transition), init_target(rule.target, value_modules(params)))


@update_td.register
def _(rule: Dqn, layout: Layout, params: Modules, state: DqnState, t: Transition, draws: Any) -> TdStep:
    """theta += alpha delta grad Q(s, a), with max Q(s') read from the target."""
    learnt, memory = recall(rule.memory, state.memory, t, draws["replay"])
    weights = value_modules(params)
    q, raw = q_and_gradient(layout, weights, learnt)
    gradient, acts = guarded(rule.guard, raw)
    v = _bootstrap(rule, layout, weights, state, learnt)
    delta = td_error(q, learnt.reward, discount(rule.gamma, learnt), v)
    updates = scale(rule.lr * delta, gradient)
    metrics = {
        **_metrics(delta, q, raw, updates),
        "overshoot": overshoot(rule, 0, gradient),
        "guarded": jnp.float32(acts),
    }
    return TdStep(updates, state._replace(memory=memory), gradient, metrics)


# Stream Q(lambda) -----------------------------------------------------------------------------------------------------


@init_td.register
def _(rule: StreamQ, params: Modules, transition: Transition) -> TraceState:
    weights = value_modules(params)
    return TraceState(zeros(weights), init_target(rule.target, weights))


@update_td.register
def _(rule: StreamQ, layout: Layout, params: Modules, state: TraceState, t: Transition, draws: Any) -> TdStep:
    """theta += alpha / max(M, 1) delta z, where M = alpha kappa max(1, |delta|) ||z||_1 bounds the effective step."""
    weights = value_modules(params)
    q, gradient = q_and_gradient(layout, weights, t)
    v = _bootstrap(rule, layout, weights, state, t)
    delta = td_error(q, t.reward, discount(rule.gamma, t), v)
    trace = decayed(rule, state.trace, gradient)
    bound = rule.lr * rule.kappa * jnp.maximum(1, jnp.abs(delta)) * norm1(trace)
    step_size = rule.lr / jnp.maximum(bound, 1)
    updates = scale(step_size * delta, trace)
    metrics = {**_metrics(delta, q, gradient, updates), "step_size": step_size}
    kept = choose(cuts_trace(t), zeros(trace), trace)
    return TdStep(updates, state._replace(trace=kept), trace, metrics)


# QRC(lambda) ----------------------------------------------------------------------------------------------------------


@init_td.register
def _(rule: Qrc, params: Modules, transition: Transition) -> QrcState:
    weights = value_modules(params)
    return QrcState(jnp.float32(0), zeros(weights), zeros(weights), init_target(rule.target, weights))


@update_td.register
def _(rule: Qrc, layout: Layout, params: Modules, state: QrcState, t: Transition, draws: Any) -> TdStep:
    """w += alpha (delta z_w - h g_q - z_h g_delta);  psi += alpha_h (delta z_psi - h g_h - beta psi)."""
    weights, h_weights = value_modules(params), value_modules(params, "h_")
    q, q_raw = q_and_gradient(layout, weights, t)
    h, h_raw = q_and_gradient(layout, h_weights, t)

    def v_of(w: Modules) -> jax.Array:
        return best_next(layout, read_target(rule.target, state.target, w), t)

    v, v_raw = jax.value_and_grad(v_of)(weights)
    q_gradient, q_acts = guarded(rule.guard, q_raw)
    h_gradient, h_acts = guarded(rule.guard, h_raw)
    v_gradient, v_acts = guarded(rule.guard, v_raw)
    gamma = discount(rule.gamma, t)
    delta = td_error(q, t.reward, gamma, v)
    delta_gradient = jax.tree.map(lambda gv, gq: gamma * gv - gq, v_gradient, q_gradient)

    h_trace = decayed(rule, state.h_trace, h)
    h_grad_trace = decayed(rule, state.h_grad_trace, h_gradient)
    q_grad_trace = decayed(rule, state.q_grad_trace, q_gradient)

    updates = jax.tree.map(
        lambda z, gq, gd: rule.lr * (delta * z - h * gq - h_trace * gd), q_grad_trace, q_gradient, delta_gradient
    )
    h_updates = jax.tree.map(
        lambda z, gh, psi: rule.lr * rule.h_lr_scale * (delta * z - h * gh - rule.regularizer * psi),
        h_grad_trace, h_gradient, h_weights,
    )  # fmt: skip
    metrics = {
        **_metrics(delta, q, q_raw, updates),
        "overshoot": overshoot(rule, rule.lamda, q_gradient),
        "guarded": jnp.float32(q_acts | h_acts | v_acts),
        "h": h,
        "h_update_norm": norm2(h_updates),
    }
    traces = QrcState(h_trace, h_grad_trace, q_grad_trace, target=())
    kept = choose(cuts_trace(t), zeros(traces), traces)._replace(target=state.target)
    both = {**updates, **{f"h_{name}": update for name, update in h_updates.items()}}
    return TdStep(both, kept, updates, metrics)
