"""Stream Q(lambda): a trace, and a step size that cannot overshoot (ObGD)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from headrace.agents import StreamQ
from headrace.definition.evaluate import Values, value_modules
from headrace.definition.networks import Modules
from headrace.definition.targets import init_target
from headrace.definition.td import (
    TdStep,
    cuts_trace,
    decayed,
    discount,
    init_td,
    td_error,
    td_metrics,
    update_td,
)
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, choose, norm1, scale, zeros


class TraceState(NamedTuple):
    trace: Modules
    target: Tree


@init_td.register
def _(rule: StreamQ, params: Modules, transition: Transition) -> TraceState:
    weights = value_modules(params)
    return TraceState(zeros(weights), init_target(rule.target, weights))


@update_td.register
def _(rule: StreamQ, values: Values, params: Modules, state: TraceState, t: Transition, context: StepContext) -> TdStep:
    """theta += alpha / max(M, 1) delta z, where M = alpha kappa max(1, |delta|) ||z||_1 bounds the effective step.

    z <- gamma lambda z + g_q, and 0 after the step where the episode ended or the action was not greedy.
    """
    delta = td_error(values.q.value, t.reward, discount(rule.gamma, t), values.v.value)
    trace = decayed(rule, state.trace, values.q.gradient)
    bound = rule.lr * rule.kappa * jnp.maximum(1, jnp.abs(delta)) * norm1(trace)
    step_size = rule.lr / jnp.maximum(bound, 1)
    updates = scale(step_size * delta, trace)
    metrics = {**td_metrics(delta, values.q, updates), "step_size": step_size}
    kept = choose(cuts_trace(t), zeros(trace), trace)
    return TdStep(updates, state._replace(trace=kept), trace, metrics)
