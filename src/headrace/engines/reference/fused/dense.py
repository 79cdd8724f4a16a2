"""A dense layer on one vector or a few rows.

The gradient of the weights is a sum of outer products, which the compiler makes part of the pass that uses it: no array
as large as the weights is written and read again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import call, count, load
from headrace.engines.reference.later import outer_sum
from headrace.engines.reference.networks import product


class Piece(NamedTuple):
    """What one program takes at a time: the sums of all rows must find room in its registers."""

    inputs: int
    outputs: int


ONE, FEW, MORE = Piece(128, 32), Piece(64, 16), Piece(32, 32)  # of a vector, of a few rows, of twice as many
BACK_ONE, BACK_FEW = Piece(64, 32), Piece(32, 32)  # the same on the way back
ROWS_BESIDE = 512  # that a program goes through, where all are to have room at once, and small kernels beside them


def _rows_kernel(rows: int, piece: Piece, x: Any, w: Any, y: Any) -> None:
    """Some outputs of every row: each weight is read once."""
    inputs, outputs = x.shape[0] // rows, y.shape[0] // rows
    first = pl.program_id(0) * piece.outputs
    column = first + count(piece.outputs, 1)
    totals = [jnp.zeros(piece, jnp.float32)] * rows
    for start in range(0, inputs, piece.inputs):  # laid out: the next weights are on their way while these are used
        row = start + count(piece.inputs, 0)
        tile = load(w, row * outputs + column)
        totals = [total + load(x, k * inputs + row) * tile for k, total in enumerate(totals)]
    at = first + jax.lax.iota(jnp.int32, piece.outputs)
    for k, total in enumerate(totals):
        plt.store(y.at[k * outputs + at], jnp.sum(total, axis=0))


def few_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a matrix of few rows; no gradient."""
    rows, outputs = x.shape[0], w.shape[1]
    piece = ONE if rows == 1 else FEW if rows <= 5 else MORE
    kernel = functools.partial(_rows_kernel, rows, piece)
    (y,) = call(kernel, [(rows * outputs,)], x.ravel(), w.ravel(), programs=outputs // piece.outputs)
    return y.reshape(rows, outputs)


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


class Taps(NamedTuple):
    """Zeros that take no part in a product. In place of their gradients stands what the gradient of the weights is made
    of: the rows that went into the layer, and the gradients of those that came out."""

    x: jax.Array
    d: jax.Array


def no_taps(w: jax.Array, rows: int) -> Taps:
    return Taps(jnp.zeros((rows, w.shape[0])), jnp.zeros((rows, w.shape[1])))


@jax.custom_vjp
def tapped_times(x: jax.Array, w: jax.Array, taps: Taps) -> jax.Array:
    """x @ w for a matrix of few rows. The weights take no gradient: theirs is in the taps."""
    return few_times(x, w)


def _tapped_forward(x: jax.Array, w: jax.Array, taps: Taps) -> tuple[jax.Array, Any]:
    return tapped_times(x, w, taps), (x, w)


def _tapped_backward(kept: Any, d: jax.Array) -> Any:
    x, w = kept
    return times_turned(d, w), jnp.zeros_like(w), Taps(x, d)


tapped_times.defvjp(_tapped_forward, _tapped_backward)


def _turned_kernel(rows: int, piece: Piece, tall: int, d: Any, w: Any, dx: Any) -> None:
    """Some inputs of every row, piece by piece."""
    outputs = d.shape[0] // rows
    inputs = w.shape[0] // outputs
    for first in range(0, tall, piece.inputs):
        start = pl.program_id(0) * tall + first
        totals = [jnp.zeros(piece, jnp.float32)] * rows
        for begin in range(0, outputs, piece.outputs):
            column = begin + count(piece.outputs, 1)
            tile = load(w, (start + count(piece.inputs, 0)) * outputs + column)
            totals = [total + load(d, k * outputs + column) * tile for k, total in enumerate(totals)]
        at = start + jax.lax.iota(jnp.int32, piece.inputs)
        for k, total in enumerate(totals):
            plt.store(dx.at[k * inputs + at], jnp.sum(total, axis=1))


def times_turned(d: jax.Array, w: jax.Array, after: Sequence[jax.Array] = (), beside: bool = False) -> jax.Array:
    """d @ w.T for a matrix of few rows, once all in `after` is there; `beside`: whether others are to find room."""
    rows, inputs = d.shape[0], w.shape[0]
    piece = BACK_ONE if rows == 1 else BACK_FEW
    tall = math.gcd(inputs, ROWS_BESIDE) if beside else piece.inputs
    kernel = functools.partial(_turned_kernel, rows, piece, tall)
    (dx,) = call(kernel, [(rows * inputs,)], d.ravel(), w.ravel(), programs=inputs // tall, after=after)
    return dx.reshape(rows, inputs)
