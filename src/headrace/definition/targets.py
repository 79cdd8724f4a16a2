"""Which parameters a bootstrap or a prediction's truth reads: the present ones, a copy, or their average."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax

from headrace.agents import Copy, Online, Polyak
from headrace.definition.trees import Tree, blend, choose


@singledispatch
def init_target(target: Any, params: Tree) -> Tree:
    """The target's own parameters; for `Online` there are none."""
    return params


@init_target.register
def _(target: Online, params: Tree) -> Tree:
    return ()


@singledispatch
def read_target(target: Any, state: Tree, params: Tree) -> Tree:
    """The parameters that the target stands for at this moment."""
    return state


@read_target.register
def _(target: Online, state: Tree, params: Tree) -> Tree:
    return params


@singledispatch
def follow(target: Any, state: Tree, params: Tree, step: jax.Array) -> Tree:
    """The target's parameters after `step` updates, the last of which gave `params`."""
    raise TypeError(f"no target rule for {target!r}")


@follow.register
def _(target: Online, state: Tree, params: Tree, step: jax.Array) -> Tree:
    return state


@follow.register
def _(target: Copy, state: Tree, params: Tree, step: jax.Array) -> Tree:
    return choose(step % target.every == 0, params, state)


@follow.register
def _(target: Polyak, state: Tree, params: Tree, step: jax.Array) -> Tree:
    return blend(target.keep, state, params)
