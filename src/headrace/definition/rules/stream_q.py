"""Stream Q(lambda): a trace, and a step size (`step_sizes`) that fits one stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from headrace.agents import StreamQ
from headrace.definition.evaluate import Value, Values, value_modules
from headrace.definition.networks import Modules
from headrace.definition.rules.step_sizes import Pace, init_step_size, sized
from headrace.definition.targets import init_target
from headrace.definition.td import TdStep, cuts_trace, decayed, discount, init_td, td_error, td_metrics, update_td
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, choose, scale, zeros


class TraceState(NamedTuple):
    trace: Modules
    target: Tree
    step_size: Tree = ()


@init_td.register
def _(rule: StreamQ, params: Modules, transition: Transition) -> TraceState:
    weights = value_modules(params)
    return TraceState(zeros(weights), init_target(rule.target, weights), init_step_size(rule.step_size, weights))


@update_td.register
def _(rule: StreamQ, values: Values, params: Modules, state: TraceState, t: Transition, context: StepContext) -> TdStep:
    """theta += size delta d, where d is the trace, or what the step size makes of it;
    z <- gamma lambda z + g_q; `cuts_trace` says when it is 0 afterwards.
    """
    delta = error_of(rule, values, t)
    trace = decayed(rule, state.trace, values.q.gradient)
    pace = Pace(rule.lr, rule.kappa, rule.gamma * rule.lamda)
    step = sized(rule.step_size, pace, delta, values.q.gradient, trace, state.step_size)
    updates = scale(step.size * step.delta, step.direction)
    metrics = {**td_metrics(delta.value, values.q, updates), "step_size": step.size}
    kept = choose(cuts_trace(rule, t), zeros(trace), trace)
    return TdStep(updates, state._replace(trace=kept, step_size=step.state), step.direction, metrics)


def error_of(rule: Any, values: Values, t: Transition) -> Value:
    """delta, with the gradient gamma g_v - g_q where v has one."""
    gamma = discount(rule.gamma, t)
    delta = td_error(values.q.value, t.reward, gamma, values.v.value)
    if not rule.step_size.implicit:
        return Value(delta)
    return Value(delta, jax.tree.map(lambda gv, gq: gamma * gv - gq, values.v.gradient, values.q.gradient))
