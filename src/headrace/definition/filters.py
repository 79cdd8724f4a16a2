"""Decorrelating a stream of gradients from its own past."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from headrace.agents import Fading, Kept, Orth, Projected, Raw, RawCurrent, Unfiltered
from headrace.definition.networks import Modules
from headrace.definition.trees import Tree, blend, scale, without, zeros


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
    return _at_rest(filter_.rest, filter_, state)


@singledispatch
def _at_rest(rest: Any, orth: Orth, past: Modules) -> Modules:
    raise TypeError(f"nothing is known of a history at {rest!r}")


@_at_rest.register
def _(rest: Kept, orth: Orth, past: Modules) -> Modules:
    return past


@_at_rest.register
def _(rest: Fading, orth: Orth, past: Modules) -> Modules:
    return scale(orth.beta, past)
