"""A tree of arrays as a flat dictionary of named arrays, and back: the form in which it is saved."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.definition.trees import Tree
from headrace.errors import CheckpointDamaged


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
