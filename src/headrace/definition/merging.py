"""Two updates become one. Modules that only one stream moves take that stream's update whole."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from headrace.agents import AuxOrthogonalToTd, Average, Bounded, Mix, PcGrad, Present, SharedFlipped, Sum
from headrace.definition.filters import shortened
from headrace.definition.networks import Modules
from headrace.definition.trees import Tree, add, blend, choose, dot, scale, without, zeros


def shared_modules(td: Modules, aux: Modules) -> list[str]:
    return [name for name in td if name in aux]


@singledispatch
def init_merge(merge: Any, td: Modules, aux: Modules) -> Tree:
    """What the merge remembers, before the first step; the arguments are examples that give shapes."""
    return ()


@init_merge.register
def _(merge: AuxOrthogonalToTd, td: Modules, aux: Modules) -> Tree:
    return init_direction(merge.against, {name: td[name] for name in shared_modules(td, aux)})


@init_merge.register
def _(merge: Bounded, td: Modules, aux: Modules) -> Tree:
    return init_merge(merge.inner, td, aux)


@singledispatch
def merge_updates(merge: Any, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    """One update of both streams'.

    Args:
      td: the RL stream's update, by module.
      aux: the auxiliary stream's.
      direction: a vector along the line of the RL update, of either sign.

    Returns:
      The update of all modules, and what to remember.
    """
    raise TypeError(f"no way to merge {merge!r}")


@merge_updates.register
def _(merge: Sum, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    return {**td, **aux, **{n: add(td[n], aux[n]) for n in shared_modules(td, aux)}}, state


@merge_updates.register
def _(merge: Mix, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    mixed = {n: blend(merge.mix, td[n], aux[n]) for n in shared_modules(td, aux)}
    return {**td, **aux, **mixed}, state


@merge_updates.register
def _(merge: SharedFlipped, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    flipped = {n: scale(-1.0, aux[n]) for n in shared_modules(td, aux)}
    return merge_updates(Sum(), td, {**aux, **flipped}, direction, state)


@merge_updates.register
def _(merge: AuxOrthogonalToTd, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    names = shared_modules(td, aux)
    along, state = direction_of(merge.against, {n: td[n] for n in names}, {n: direction[n] for n in names}, state)
    freed = {n: without(aux[n], along[n]) for n in names}
    updates, _ = merge_updates(merge.combine, td, {**aux, **freed}, direction, ())
    return updates, state


@merge_updates.register
def _(merge: PcGrad, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    td, aux = dict(td), dict(aux)
    for n in shared_modules(td, aux):
        a, b = td[n], aux[n]
        conflict = dot(a, b) < 0
        td[n] = choose(conflict, without(a, b), a)
        aux[n] = choose(conflict, without(b, a), b)
    return merge_updates(merge.combine, td, aux, direction, state)


@merge_updates.register
def _(merge: Bounded, td: Modules, aux: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    updates, state = merge_updates(merge.inner, td, aux, direction, state)
    return shortened(merge.norm, updates)[0], state


@singledispatch
def init_direction(against: Any, td: Modules) -> Tree:
    raise TypeError(f"no direction {against!r}")


@init_direction.register
def _(against: Present, td: Modules) -> Tree:
    return ()


@init_direction.register
def _(against: Average, td: Modules) -> Tree:
    return zeros(td)


@singledispatch
def direction_of(against: Any, td: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    raise TypeError(f"no direction {against!r}")


@direction_of.register
def _(against: Present, td: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    return direction, state


@direction_of.register
def _(against: Average, td: Modules, direction: Modules, state: Tree) -> tuple[Modules, Tree]:
    average = blend(against.beta, state, td)
    return average, average
