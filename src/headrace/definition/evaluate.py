"""All that learning asks of the networks: the values of one transition under the parameters of now, with gradients."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Qrc
from headrace.agents.aux import Q_NETWORK
from headrace.definition.augment import View
from headrace.definition.networks import ByAction, Layout, Modules, by_action, q_values
from headrace.definition.objectives import aux_loss
from headrace.definition.targets import read_target
from headrace.definition.transition import StepContext, Transition
from headrace.definition.windows import Window


class Value(NamedTuple):
    """A number and its gradient by module; `()` where it takes none."""

    value: jax.Array
    gradient: Any = ()


class Values(NamedTuple):
    """What a rule learns from."""

    q: Value  # Q(s, a), with its gradient
    v: Value  # max_a Q(s', a) of the target
    next_q: ByAction  # Q(s', .) of the target
    h: Any = ()  # h(s, a), where the rule has a second network


def value_modules(params: Modules, prefix: str = "") -> Modules:
    """The modules of Q, by their names; with the prefix "h_" those of h."""
    return {name: params[prefix + name] for name in Q_NETWORK}


@singledispatch
def evaluate(rule: Any, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext) -> Values:
    """Q(s, a) with its gradient, and Q(s', .) of the target without: what a rule that bootstraps needs.

    Args:
      params: the parameters of now.
      state: the rule's state, of which the target network is read, where it has one.
    """
    weights = value_modules(params)
    next_q = q_values(layout, read_target(rule.target, getattr(state, "target", ()), weights), t.next_obs)
    return Values(action_value(layout, weights, t), Value(best(next_q)), by_action(layout, next_q))


@evaluate.register
def _(rule: Qrc, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext) -> Values:
    """A gradient-TD rule also learns from the gradient of max Q(s', .), and from h(s, a)."""
    weights = value_modules(params)

    def v_of(w: Modules) -> tuple[jax.Array, jax.Array]:
        next_q = q_values(layout, read_target(rule.target, state.target, w), t.next_obs)
        return best(next_q), next_q

    q, h = action_value(layout, weights, t), action_value(layout, value_modules(params, "h_"), t)
    (v, next_q), gradient = jax.value_and_grad(v_of, has_aux=True)(weights)
    return Values(q, Value(v, gradient), by_action(layout, next_q), h)


def evaluate_aux(
    objective: Any, layout: Layout, modules: Modules, target: Modules, window: Window, view: View
) -> Value:
    """The auxiliary loss on the window, with its gradient by the modules that the objective moves."""
    return Value(*jax.value_and_grad(aux_loss, argnums=2)(objective, layout, modules, target, window, view))


def action_value(layout: Layout, modules: Modules, t: Transition) -> Value:
    """Q(s, a) of the action taken, with its gradient."""
    return Value(*jax.value_and_grad(lambda w: q_values(layout, w, t.obs)[t.action])(modules))


def best(q: jax.Array) -> jax.Array:
    """max_a q(a), with the gradient of the first action that has it.

    The gradient of `max` asks where q equals its maximum. A compiler may compute q twice, once for either side, and
    round the two differently: then nothing is equal, and the gradient is silently zero (decision 0023).
    """
    return jnp.sum(jnp.where(jnp.arange(q.size) == jnp.argmax(q), q, 0))
