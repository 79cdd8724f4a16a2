"""Decorrelating a stream of gradients from its own past."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from headrace.agents import Orth, Projected, Raw, RawCurrent, Unfiltered
from headrace.engines.reference.networks import Modules
from headrace.engines.reference.trees import Tree, blend, without, zeros


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
    """The gradients to use, and what to remember of them."""
    raise TypeError(f"no gradient filter {filter_!r}")


@filter_gradient.register
def _(filter_: Unfiltered, gradients: Modules, state: Tree) -> tuple[Modules, Tree]:
    return gradients, state


@filter_gradient.register
def _(filter_: Orth, gradients: Modules, state: Modules) -> tuple[Modules, Tree]:
    """u = g - (g.c / ||c||^2) c in each module, each seen as one vector."""
    filtered, history = {}, {}
    for name, gradient in gradients.items():
        filtered[name], history[name] = _orthogonal(filter_.history, filter_, gradient, state[name])
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
