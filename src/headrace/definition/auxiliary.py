"""The auxiliary stream: from a transition to an update, with its window, gate, filter and target."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Auxiliary, NoAuxiliary
from headrace.definition.augment import views
from headrace.definition.evaluate import evaluate_aux
from headrace.definition.filters import filter_gradient, guarded, init_filter, rested
from headrace.definition.networks import Layout, Modules
from headrace.definition.targets import follow, init_target, read_target
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, cosine, norm2, scale, zeros
from headrace.definition.windows import WindowState, init_window, push


class AuxState(NamedTuple):
    window: WindowState
    history: Tree
    target: Tree


class AuxStep(NamedTuple):
    """What the auxiliary makes of one transition."""

    updates: Modules
    raw_encoder_update: Tree  # what the encoder's update would be without the filter
    state: Tree
    active: jax.Array  # whether there was anything to learn from
    loss: jax.Array
    guarded: jax.Array  # 1 where the guard shortened the gradient


def _pick(params: Modules, names: tuple[str, ...]) -> Modules:
    return {name: params[name] for name in names}


@singledispatch
def init_aux(aux: Any, params: Modules, transition: Transition) -> Tree:
    """The stream's state before the first step; `transition` is an example that gives shapes."""
    return ()


@init_aux.register
def _(aux: Auxiliary, params: Modules, transition: Transition) -> AuxState:
    objective = aux.objective
    return AuxState(
        window=init_window(objective, transition),
        history=init_filter(aux.filter, _pick(params, objective.modules())),
        target=init_target(objective.target, _pick(params, objective.target_modules())),
    )


@singledispatch
def update_aux(
    aux: Any, layout: Layout, params: Modules, state: Any, transition: Transition, context: StepContext
) -> AuxStep:
    """The auxiliary's update for one transition; all reads are of the parameters before it."""
    raise TypeError(f"no auxiliary {aux!r}")


@update_aux.register
def _(aux: NoAuxiliary, layout: Layout, params: Modules, state: Any, transition: Transition, context: StepContext):
    return AuxStep({}, (), (), jnp.bool_(False), jnp.float32(0), jnp.float32(0))


@update_aux.register
def _(
    aux: Auxiliary, layout: Layout, params: Modules, state: AuxState, transition: Transition, context: StepContext
) -> AuxStep:
    """theta -= alpha_aux weight u, where u is the filtered gradient of the loss on the window."""
    objective = aux.objective
    window, kept = push(objective, state.window, transition)
    active = window.ready & aux.gate.is_open(transition, context.step)
    modules = _pick(params, objective.modules())
    target = read_target(objective.target, state.target, params)

    def learn(history: Tree) -> tuple[jax.Array, Tree, Modules, Tree, jax.Array]:
        loss, raw = evaluate_aux(objective, layout, modules, target, window, views(context.draws.aux))
        gradients, acts = guarded(aux.guard, raw)
        filtered, history = filter_gradient(aux.filter, gradients, history)
        return loss, gradients["encoder"], filtered, history, jnp.float32(acts)

    def rest(history: Tree) -> tuple[jax.Array, Tree, Modules, Tree, jax.Array]:
        nothing = zeros(modules)
        zero = jnp.zeros((), nothing["encoder"][0]["w"].dtype)  # tests evaluate this in double precision too
        return zero, nothing["encoder"], nothing, rested(aux.filter, history), jnp.float32(0)

    loss, raw, filtered, history, acts = jax.lax.cond(active, learn, rest, state.history)
    descent = -aux.lr * aux.weight
    after = state._replace(window=kept, history=history)
    return AuxStep(scale(descent, filtered), scale(descent, raw), after, active, loss, acts)


@singledispatch
def follow_aux(aux: Any, state: Any, params: Modules, step: jax.Array) -> Any:
    """The auxiliary's state once the parameters have moved: its target follows them."""
    return state


@follow_aux.register
def _(aux: Auxiliary, state: AuxState, params: Modules, step: jax.Array) -> AuxState:
    present = _pick(params, aux.objective.target_modules())
    return state._replace(target=follow(aux.objective.target, state.target, present, step))


@singledispatch
def aux_metrics(aux: Any, result: AuxStep, td_updates: Modules) -> dict[str, jax.Array]:
    """Quantities that mean something only where the auxiliary was active."""
    return {}


@aux_metrics.register
def _(aux: Auxiliary, result: AuxStep, td_updates: Modules) -> dict[str, jax.Array]:
    return {
        "aux_loss": result.loss,
        "aux_update_norm": norm2(result.updates),
        "aux_guarded": result.guarded,
        "cosine_before_orth": cosine(td_updates["encoder"], result.raw_encoder_update),
        "cosine_before_orth2": cosine(td_updates["encoder"], result.updates["encoder"]),
    }
