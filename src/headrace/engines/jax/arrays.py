"""Trees: agents as trees of numbers that can be traced, and trees as named arrays, the form in which they are saved."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.definition.trees import Tree
from headrace.errors import CheckpointDamaged
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


def _names(prefix: str, tree: Tree) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return ["/".join([prefix, *(_key_name(key) for key in path)]) for path, _ in paths]


def _key_name(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def named_arrays(prefix: str, tree: Tree) -> dict[str, np.ndarray]:
    """The tree's leaves, each under the path that leads to it."""
    leaves = jax.device_get(jax.tree.leaves(tree))
    return {name: np.asarray(leaf) for name, leaf in zip(_names(prefix, tree), leaves, strict=True)}


def from_named_arrays(prefix: str, template: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """A tree like the template, with the named arrays as its leaves."""
    leaves = []
    for name, like in zip(_names(prefix, template), jax.tree.leaves(template), strict=True):
        if name not in arrays:
            raise CheckpointDamaged(f"it has no array {name}")
        if arrays[name].shape != like.shape or arrays[name].dtype != like.dtype:
            raise CheckpointDamaged(
                f"{name} is {arrays[name].dtype}{arrays[name].shape} in it, this agent needs {like.dtype}{like.shape}"
            )
        leaves.append(jnp.asarray(arrays[name]))
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
