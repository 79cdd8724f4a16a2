"""QRC(lambda): gradient TD with a second network h that estimates the expected TD error."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Qrc
from headrace.definition.evaluate import Values, value_modules
from headrace.definition.filters import guarded
from headrace.definition.networks import Modules
from headrace.definition.targets import init_target
from headrace.definition.td import (
    TdStep,
    cuts_trace,
    decayed,
    discount,
    init_td,
    overshoot,
    td_error,
    td_metrics,
    update_td,
)  # fmt: skip
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, choose, norm2, zeros


class QrcState(NamedTuple):
    h_trace: jax.Array  # z_h
    h_grad_trace: Modules  # z_psi
    q_grad_trace: Modules  # z_w
    target: Tree


@init_td.register
def _(rule: Qrc, params: Modules, transition: Transition) -> QrcState:
    weights = value_modules(params)
    return QrcState(jnp.float32(0), zeros(weights), zeros(weights), init_target(rule.target, weights))


@update_td.register
def _(rule: Qrc, values: Values, params: Modules, state: QrcState, t: Transition, context: StepContext) -> TdStep:
    """w += alpha (delta z_w - h g_q - z_h g_delta);  psi += alpha_h (delta z_psi - h g_h - beta psi).

    z_h, z_psi, z_w <- gamma lambda z + h, g_h, g_q;  g_delta = gamma grad max Q(s', .) - g_q, with gamma 0 there
    where the transition is terminal; each gradient (g_q of Q(s, a), g_h of h(s, a)) goes through the guard first.
    alpha_h = h_lr_scale alpha, beta = regularizer. `cuts_trace` says when traces are 0 afterwards.
    """
    gradients, acts = zip(*(guarded(rule.guard, x.gradient) for x in (values.q, values.v, values.h)), strict=True)
    q_gradient, v_gradient, h_gradient = gradients
    q, v, h = values.q.value, values.v.value, values.h.value
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
        h_grad_trace, h_gradient, value_modules(params, "h_"),
    )  # fmt: skip
    metrics = {
        **td_metrics(delta, values.q, updates),
        "overshoot": overshoot(rule, rule.lamda, q_gradient),
        "guarded": jnp.float32(functools.reduce(jnp.logical_or, acts)),
        "h": h,
        "h_update_norm": norm2(h_updates),
    }
    traces = QrcState(h_trace, h_grad_trace, q_grad_trace, target=())
    kept = choose(cuts_trace(rule, t), zeros(traces), traces)._replace(target=state.target)
    both = {**updates, **{f"h_{name}": update for name, update in h_updates.items()}}
    return TdStep(both, kept, updates, metrics)
