"""What is done to gradients before they are used: their past is removed (orth), too long ones are shortened."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp

from headrace.agents import Clip, Orth, Projected, Raw, RawCurrent, Unfiltered, Unguarded
from headrace.definition.networks import Modules
from headrace.definition.trees import Tree, blend, norm2, scale, without, zeros


@singledispatch
def init_filter(filter_: Any, gradients: Modules) -> Tree:
    raise TypeError(f"no gradient filter {filter_!r}")


@init_filter.register
def _(filter_: Unfiltered, gradients: Modules) -> Tree:
    return ()


@init_filter.register
def _(filter_: Orth, gradients: Modules) -> Modules:
    return zeros(gradients)


@singledispatch
def filter_gradient(filter_: Any, gradients: Modules, state: Tree) -> tuple[Modules, Tree]:
    """What is used of a gradient in view of its past.

    Args:
      gradients: of each module, as they came.
      state: what is remembered of earlier ones.

    Returns:
      The gradients to use, and what to remember.
    """
    raise TypeError(f"no gradient filter {filter_!r}")


@filter_gradient.register
def _(filter_: Unfiltered, gradients: Modules, state: Tree) -> tuple[Modules, Tree]:
    return gradients, state


@filter_gradient.register
def _(filter_: Orth, gradients: Modules, state: Modules) -> tuple[Modules, Tree]:
    """u = g - (g.c / ||c||^2) c in each module, or in several together, seen as one vector."""
    filtered: Modules = {}
    history: Modules = {}
    for names in filter_.modules.vectors(list(gradients)):
        gradient, past = ({name: modules[name] for name in names} for modules in (gradients, state))
        left, present = _orthogonal(filter_.history, filter_, gradient, past)
        filtered |= left
        history |= present
    return filtered, history


@singledispatch
def _orthogonal(history: Any, orth: Orth, gradient: Tree, past: Tree) -> tuple[Tree, Tree]:
    raise TypeError(f"no history {history!r}")


@_orthogonal.register
def _(history: Raw, orth: Orth, gradient: Tree, past: Tree) -> tuple[Tree, Tree]:
    return without(gradient, past), blend(orth.beta, past, gradient)


@_orthogonal.register
def _(history: Projected, orth: Orth, gradient: Tree, past: Tree) -> tuple[Tree, Tree]:
    left = without(gradient, past)
    return left, blend(orth.beta, past, left)


@_orthogonal.register
def _(history: RawCurrent, orth: Orth, gradient: Tree, past: Tree) -> tuple[Tree, Tree]:
    present = blend(orth.beta, past, gradient)
    return without(gradient, present), present


@singledispatch
def rested(filter_: Any, state: Tree) -> Tree:
    """What is remembered after a step without a gradient."""
    return state


@rested.register
def _(filter_: Orth, state: Modules) -> Tree:
    return scale(filter_.rest.factor(filter_.beta), state)


@singledispatch
def guarded(guard: Any, gradient: Modules) -> tuple[Modules, jax.Array]:
    """The gradient that is learnt from, and whether the guard changed it."""
    raise TypeError(f"no guard {guard!r}")


@guarded.register
def _(guard: Unguarded, gradient: Modules) -> tuple[Modules, jax.Array]:
    return gradient, jnp.bool_(False)


@guarded.register
def _(guard: Clip, gradient: Modules) -> tuple[Modules, jax.Array]:
    return shortened(guard.norm, gradient)


def shortened(norm: Any, vector: Modules) -> tuple[Modules, jax.Array]:
    """g <- g min(1, norm / ||g||): as it is, to the bit, where it is not too long; and whether it was."""
    length = norm2(vector)
    acts = length > norm
    return scale(jnp.where(acts, norm / jnp.where(acts, length, 1), 1), vector), acts
