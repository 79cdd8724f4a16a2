"""Arithmetic on trees of arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Tree = Any

TINY = 1e-30  # makes 0 / 0 a zero, and is invisible beside the squared norm of any update


def add(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(lambda x, y: x + y, a, b)


def scale(factor: Any, a: Tree) -> Tree:
    return jax.tree.map(lambda x: factor * x, a)


def blend(keep: Any, old: Tree, new: Tree) -> Tree:
    """keep * old + (1 - keep) * new."""
    return jax.tree.map(lambda o, n: keep * o + (1 - keep) * n, old, new)


def choose(condition: Any, a: Tree, b: Tree) -> Tree:
    """`a` where the condition holds, else `b`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def zeros(a: Tree) -> Tree:
    return jax.tree.map(jnp.zeros_like, a)


def dot(a: Tree, b: Tree) -> jax.Array:
    """The inner product of two trees, each seen as one long vector."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return sum((jnp.sum(x * y) for x, y in pairs), start=jnp.float32(0))


def norm1(a: Tree) -> jax.Array:
    return sum((jnp.sum(jnp.abs(x)) for x in jax.tree.leaves(a)), start=jnp.float32(0))


def norm2(a: Tree) -> jax.Array:
    return jnp.sqrt(dot(a, a))


def cosine(a: Tree, b: Tree) -> jax.Array:
    """The cosine of the angle between two trees; 0 where one of them is zero."""
    lengths = norm2(a) * norm2(b)
    return jnp.where(lengths > 0, dot(a, b) / jnp.where(lengths > 0, lengths, 1), 0)


def without(a: Tree, direction: Tree) -> Tree:
    """`a` less its component along `direction`, however short that is; `a` itself where it is zero."""
    along = dot(a, direction) / (dot(direction, direction) + TINY)
    return jax.tree.map(lambda x, d: x - along * d, a, direction)
