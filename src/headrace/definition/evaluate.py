"""All that learning asks of the networks: the values of one transition under the parameters of now, with gradients."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import ACTOR, ActorCritic, Qrc, StreamQ
from headrace.agents.aux import Q_NETWORK
from headrace.definition.augment import View
from headrace.definition.networks import ByAction, Layout, Modules, by_action, outputs, q_values
from headrace.definition.objectives import aux_loss
from headrace.definition.policies import entropy, log_prob, policy_of
from headrace.definition.targets import read_target
from headrace.definition.transition import StepContext, Transition
from headrace.definition.windows import Window


class Value(NamedTuple):
    """A number and its gradient by module; `()` where it takes none."""

    value: jax.Array
    gradient: Any = ()


class Values(NamedTuple):
    """What a rule learns from."""

    q: Value  # Q(s, a), with its gradient; V(s) where the rule learns that
    v: Value  # the value of s' by the target: max_a Q(s', a), or what the rule has for it
    next_q: Any  # Q(s', .) of the target, `ByAction`
    h: Any = ()  # h(s, a), where the rule has a second network
    log_pi: Any = ()  # log pi(a|s), where it has a policy
    entropy: Any = ()  # of pi(.|s)


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
    v, next_q = _value_ahead(rule, layout, weights, state, t, context)
    return Values(action_value(layout, weights, t), Value(v), next_q)


@evaluate.register
def _(rule: StreamQ, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext) -> Values:
    """An implicit step size is made of the gradient of the value of s' as well."""
    given = _differentiated if rule.step_size.implicit else evaluate.dispatch(object)
    return given(rule, layout, params, state, t, context)


@evaluate.register
def _(rule: Qrc, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext) -> Values:
    """A gradient-TD rule also learns from the gradient of max Q(s', .), and from h(s, a)."""
    h = action_value(layout, value_modules(params, "h_"), t)
    return _differentiated(rule, layout, params, state, t, context)._replace(h=h)


def _differentiated(
    rule: Any, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext
) -> Values:
    """As `evaluate`, the value of s' with its gradient."""
    weights = value_modules(params)
    ahead = jax.value_and_grad(lambda w: _value_ahead(rule, layout, w, state, t, context), has_aux=True)
    (v, next_q), gradient = ahead(weights)
    return Values(action_value(layout, weights, t), Value(v, gradient), next_q)


def _value_ahead(
    rule: Any, layout: Layout, weights: Modules, state: Any, t: Transition, context: StepContext
) -> tuple[jax.Array, ByAction]:
    target = read_target(rule.target, getattr(state, "target", ()), weights)
    next_q = by_action(layout, q_values(layout, target, t.next_obs))
    return next_value(rule, next_q, context), next_q


@singledispatch
def next_value(rule: Any, next_q: ByAction, context: StepContext) -> jax.Array:
    """What the rule has for the value of s', of which Q(s', .) is given: the highest one."""
    return best(jnp.where(next_q.valid, next_q.q, -jnp.inf))


@evaluate.register
def _(rule: ActorCritic, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext) -> Values:
    """V(s), V(s'), log pi(a|s) and the entropy of pi(.|s)."""

    def of_policy(w: Modules) -> tuple[jax.Array, jax.Array]:
        policy = policy_of(layout, outputs(layout, w, t.obs))
        return log_prob(policy, t.action), entropy(policy)

    def value(obs: jax.Array) -> Value:
        return Value(*jax.value_and_grad(lambda w: outputs(layout, w, obs)[0][0])(value_modules(params)))

    (log_pi, h), pullback = jax.vjp(of_policy, actor_modules(params))
    one, zero = jnp.ones_like(log_pi), jnp.zeros_like(log_pi)
    along_pi, along_h = pullback((one, zero))[0], pullback((zero, one))[0]
    return Values(value(t.obs), value(t.next_obs), (), log_pi=Value(log_pi, along_pi), entropy=Value(h, along_h))


def actor_modules(params: Modules) -> Modules:
    """The modules of the policy; those that it has not of its own are the critic's."""
    return {name: params.get(ACTOR + name, params[name]) for name in Q_NETWORK}


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
