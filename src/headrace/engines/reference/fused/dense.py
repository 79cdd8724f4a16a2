"""A dense layer on one vector or a few rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import (
    call,
    count,
    load,
    total_of,
)
from headrace.engines.reference.networks import product


@jax.custom_vjp
def rows_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a matrix x of few rows.

    The gradient of w is a sum of outer products, which the compiler makes part of the pass that uses it: no array as
    large as the weights is written and read again.
    """
    return product(x, w)


def _rows_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    return rows_times(x, w), (x, w)


def _rows_backward(kept: Any, dy: jax.Array) -> Any:
    x, w = kept
    outer = [x[k][:, None] * dy[k][None, :] for k in range(x.shape[0])]
    return product(dy, w.T), total_of(outer)


rows_times.defvjp(_rows_forward, _rows_backward)


STRETCH, OUTPUTS = 128, 32  # inputs and outputs that one program takes at a time


def _vector_kernel(x: Any, w: Any, y: Any) -> None:
    inputs, outputs = x.shape[0], y.shape[0]
    column = pl.program_id(0) * OUTPUTS + count(OUTPUTS, 1)
    total = jnp.zeros((STRETCH, OUTPUTS), jnp.float32)
    for start in range(0, inputs, STRETCH):
        row = start + count(STRETCH, 0)
        total = total + load(x, row) * load(w, row * outputs + column)
    plt.store(y.at[pl.program_id(0) * OUTPUTS + jax.lax.iota(jnp.int32, OUTPUTS)], jnp.sum(total, axis=0))


@jax.custom_vjp
def vector_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a vector x: as fast as the weights can be read."""
    return call(_vector_kernel, [(w.shape[1],)], x, w.ravel(), programs=w.shape[1] // OUTPUTS, warps=4)[0]


def _vector_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    return vector_times(x, w), (x, w)


def _vector_backward(kept: Any, dy: jax.Array) -> Any:
    x, w = kept
    return product(w, dy), x[:, None] * dy[None, :]


vector_times.defvjp(_vector_forward, _vector_backward)
