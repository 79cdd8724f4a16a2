"""A dense layer on one vector or a few rows.

The gradient of the weights is a sum of outer products, which the compiler makes part of the pass that uses it: no array
as large as the weights is written and read again.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.definition.networks import product
from headrace.engines.jax.kernels.programs import call, count, load


class Piece(NamedTuple):
    """What one program takes at a time: the sums of all rows must find room in its registers."""

    inputs: int
    outputs: int
    warps: int = 4

    @property
    def shape(self) -> tuple[int, int]:
        return self.inputs, self.outputs


ONE, FEW, MORE = Piece(128, 32), Piece(64, 16), Piece(32, 32)  # of a vector, of a few rows, of twice as many


def _rows_kernel(rows: int, piece: Piece, x: Any, w: Any, y: Any) -> None:
    """Some outputs of every row: each weight is read once."""
    inputs = x.shape[0] // rows
    outputs = w.shape[0] // inputs
    first = pl.program_id(0) * piece.outputs
    column = first + count(piece.outputs, 1)
    totals = [jnp.zeros(piece.shape, jnp.float32)] * rows
    for start in range(0, inputs, piece.inputs):  # laid out: the next weights are on their way while these are used
        row = start + count(piece.inputs, 0)
        tile = load(w, row * outputs + column)
        totals = [total + load(x, k * inputs + row) * tile for k, total in enumerate(totals)]
    at = first + jax.lax.iota(jnp.int32, piece.outputs)
    for k, total in enumerate(totals):
        plt.store(y.at[k * outputs + at], jnp.sum(total, axis=0))


def few_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a matrix of few rows, in one pass over w; no gradient."""
    rows, outputs = len(x), w.shape[1]
    piece = ONE if rows == 1 else FEW if rows <= 5 else MORE
    (y,) = call(
        functools.partial(_rows_kernel, rows, piece), [(rows * outputs,)], x.ravel(), w.ravel(),
        programs=outputs // piece.outputs, warps=piece.warps,
    )  # fmt: skip
    return y.reshape(rows, outputs)


def outer_sum(x: jax.Array, d: jax.Array) -> jax.Array:
    """The sum of the outer products of rows, in the order of the rows."""
    return functools.reduce(jnp.add, (x[k][:, None] * d[k][None, :] for k in range(x.shape[0])))


@jax.custom_vjp
def rows_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a matrix x of few rows."""
    return few_times(x, w)


def _rows_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    return rows_times(x, w), (x, w)


def _rows_backward(kept: Any, dy: jax.Array) -> Any:
    x, w = kept
    return product(dy, w.T), outer_sum(x, dy)


rows_times.defvjp(_rows_forward, _rows_backward)


@jax.custom_vjp
def vector_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a vector x: as fast as the weights can be read."""
    return few_times(x[None, :], w)[0]


def _vector_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    return vector_times(x, w), (x, w)


def _vector_backward(kept: Any, dy: jax.Array) -> Any:
    x, w = kept
    return product(w, dy), x[:, None] * dy[None, :]


vector_times.defvjp(_vector_forward, _vector_backward)
