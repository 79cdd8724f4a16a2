"""Stream Q(lambda): a trace, and a step size (`step_sizes`) that fits one stream."""

from __future__ import annotations

from typing import NamedTuple

from headrace.agents import StreamQ
from headrace.definition.evaluate import Values, value_modules
from headrace.definition.networks import Modules
from headrace.definition.rules.step_sizes import init_step_size, sized
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
    delta = td_error(values.q.value, t.reward, discount(rule.gamma, t), values.v.value)
    trace = decayed(rule, state.trace, values.q.gradient)
    step = sized(rule.step_size, rule, delta, values.q.gradient, trace, state.step_size)
    updates = scale(step.size * step.delta, step.direction)
    metrics = {**td_metrics(delta, values.q, updates), "step_size": step.size}
    kept = choose(cuts_trace(t), zeros(trace), trace)
    return TdStep(updates, state._replace(trace=kept, step_size=step.state), step.direction, metrics)
