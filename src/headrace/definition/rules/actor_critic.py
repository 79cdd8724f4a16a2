"""Stream AC(lambda): a policy that follows the errors of a critic, with a trace and a step size for each."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import ACTOR, ActorCritic
from headrace.definition.evaluate import Values, actor_modules, value_modules
from headrace.definition.networks import Modules
from headrace.definition.rules.step_sizes import Pace, init_step_size, sized
from headrace.definition.rules.stream_q import error_of
from headrace.definition.td import TdStep, cuts_trace, decayed, ends, init_td, td_metrics, update_td
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, add, choose, norm2, scale, zeros


class ActorCriticState(NamedTuple):
    value_trace: Modules
    policy_trace: Modules
    step_size: Tree = ()
    actor_step_size: Tree = ()


@init_td.register
def _(rule: ActorCritic, params: Modules, transition: Transition) -> ActorCriticState:
    critic, actor = value_modules(params), actor_modules(params)
    steps = init_step_size(rule.step_size, critic), init_step_size(rule.actor_step_size, actor)
    return ActorCriticState(zeros(critic), zeros(actor), *steps)


@update_td.register
def _(
    rule: ActorCritic, values: Values, params: Modules, state: ActorCriticState, t: Transition, context: StepContext
) -> TdStep:
    """w += size delta d of the critic, theta += size delta d of the actor, where delta = r + gamma V(s') - V(s);
    z_w <- gamma lambda z_w + grad V(s);
    z_theta <- gamma lambda z_theta + grad log pi(a|s) + c sign(delta) grad H(pi(.|s)), where c = `entropy`.

    An encoder that both share takes both updates.
    """
    delta, keep = error_of(rule, values, t), rule.gamma * rule.lamda
    toward = jax.tree.map(
        lambda g, h: g + rule.entropy * jnp.sign(delta.value) * h, values.log_pi.gradient, values.entropy.gradient
    )
    traces = decayed(rule, state.value_trace, values.q.gradient), decayed(rule, state.policy_trace, toward)
    pace, actor_pace = Pace(rule.lr, rule.kappa, keep), Pace(rule.actor_lr, rule.actor_kappa, keep)
    critic = sized(rule.step_size, pace, delta, values.q.gradient, traces[0], state.step_size)
    actor = sized(rule.actor_step_size, actor_pace, delta, toward, traces[1], state.actor_step_size)
    moved = scale(critic.size * critic.delta, critic.direction)
    actor_moved = scale(actor.size * actor.delta, actor.direction)

    own = {ACTOR + name: actor_moved[name] for name in rule.encoder.own}
    shared = {name: add(moved[name], actor_moved[name]) for name in moved if name not in rule.encoder.own}
    updates = {**moved, **shared, **own}
    metrics = {
        **td_metrics(delta.value, values.q, updates),
        "step_size": critic.size,
        "actor_step_size": actor.size,
        "actor_update_norm": norm2(actor_moved),
        "log_pi": values.log_pi.value,
        "entropy": values.entropy.value,
    }
    value_trace, policy_trace = choose(cuts_trace(rule, t), zeros(traces), traces)
    after = ActorCriticState(value_trace, policy_trace, critic.state, actor.state)
    return TdStep(updates, after, {**critic.direction, **shared}, metrics)


@cuts_trace.register
def _(rule: ActorCritic, t: Transition) -> jax.Array:
    return ends(t)
