"""Agents as trees whose numbers can be traced: one program then serves all learning rates."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from headrace.part import KINDS, Part, is_tuple, types_of


def _register(kind: Any) -> None:
    """Numbers and inner parts become children of the tree; what decides shapes stays part of its structure."""
    fields, declared = dataclasses.fields(kind), types_of(kind)
    fixed = [f.name for f in fields if f.metadata.get("shape") or declared[f.name] is str or is_tuple(declared[f.name])]
    traced = [f.name for f in fields if f.name not in fixed]

    def flatten(part: Part) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(part, n) for n in traced), tuple(getattr(part, n) for n in fixed)

    def unflatten(aux: tuple[Any, ...], children: Any) -> Part:
        part = object.__new__(kind)  # the constructor's checks cannot read a traced number
        for name, value in [*zip(traced, children, strict=True), *zip(fixed, aux, strict=True)]:
            object.__setattr__(part, name, value)
        return part

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


_registered: set[type[Part]] = set()


def register_parts() -> None:
    """Makes every kind of part a tree, also one that was defined after this module was loaded."""
    for kind in list(KINDS.values()):
        if kind not in _registered:
            _registered.add(kind)
            _register(kind)


register_parts()
