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
    warps: int = 4

    @property
    def shape(self) -> tuple[int, int]:
        return self.inputs, self.outputs


ONE, FEW, MORE = Piece(128, 32), Piece(64, 16), Piece(32, 32)  # of a vector, of a few rows, of twice as many
BACK_ONE, BACK_FEW = Piece(64, 32), Piece(16, 32, warps=2)  # the same on the way back
ROWS_BESIDE = 512  # that a program goes through, where all are to have room at once, and small kernels beside them


def _rows_kernel(counts: Sequence[int], piece: Piece, x: Any, w: Any, *ys: Any) -> None:
    """Some outputs of every row: each weight is read once. The rows come out in parts."""
    inputs = x.shape[0] // sum(counts)
    outputs = w.shape[0] // inputs
    first = pl.program_id(0) * piece.outputs
    column = first + count(piece.outputs, 1)
    totals = [jnp.zeros(piece.shape, jnp.float32)] * sum(counts)
    for start in range(0, inputs, piece.inputs):  # laid out: the next weights are on their way while these are used
        row = start + count(piece.inputs, 0)
        tile = load(w, row * outputs + column)
        totals = [total + load(x, k * inputs + row) * tile for k, total in enumerate(totals)]
    at = first + jax.lax.iota(jnp.int32, piece.outputs)
    places = [(y, k) for y, n in zip(ys, counts, strict=True) for k in range(n)]
    for total, (y, k) in zip(totals, places, strict=True):
        plt.store(y.at[k * outputs + at], jnp.sum(total, axis=0))


def parts_times(parts: Sequence[jax.Array], w: jax.Array) -> list[jax.Array]:
    """x @ w for each of some matrices of few rows, in one pass over w; no gradient."""
    x, counts, outputs = jnp.concatenate(parts), [len(x) for x in parts], w.shape[1]
    piece = ONE if len(x) == 1 else FEW if len(x) <= 5 else MORE
    ys = call(
        functools.partial(_rows_kernel, counts, piece), [(n * outputs,) for n in counts], x.ravel(), w.ravel(),
        programs=outputs // piece.outputs, warps=piece.warps,
    )  # fmt: skip
    return [y.reshape(n, outputs) for y, n in zip(ys, counts, strict=True)]


def few_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a matrix of few rows; no gradient."""
    return parts_times([x], w)[0]


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
    return parts_turned([d], w)[0], jnp.zeros_like(w), Taps(x, d)


tapped_times.defvjp(_tapped_forward, _tapped_backward)


def _turned_kernel(counts: Sequence[int], piece: Piece, tall: int, *refs: Any) -> None:
    """Some inputs of every row of every part, piece by piece."""
    ds, w, dxs = refs[: len(counts)], refs[len(counts)], refs[len(counts) + 1 :]
    outputs = ds[0].shape[0] // counts[0]
    inputs = w.shape[0] // outputs
    rows = [(d, dx, k) for d, dx, n in zip(ds, dxs, counts, strict=True) for k in range(n)]
    for first in range(0, tall, piece.inputs):
        start = pl.program_id(0) * tall + first
        totals = [jnp.zeros(piece.shape, jnp.float32)] * len(rows)
        for begin in range(0, outputs, piece.outputs):
            column = begin + count(piece.outputs, 1)
            tile = load(w, (start + count(piece.inputs, 0)) * outputs + column)
            totals = [
                total + load(d, k * outputs + column) * tile for total, (d, _, k) in zip(totals, rows, strict=True)
            ]
        at = start + jax.lax.iota(jnp.int32, piece.inputs)
        for total, (_, dx, k) in zip(totals, rows, strict=True):
            plt.store(dx.at[k * inputs + at], jnp.sum(total, axis=1))


def parts_turned(
    parts: Sequence[jax.Array], w: jax.Array, after: Sequence[jax.Array] = (), beside: bool = False
) -> list[jax.Array]:
    """d @ w.T for each of some matrices of few rows, in one pass over w, once all in `after` is there.

    `beside`: whether others are to find room."""
    counts, inputs = [len(d) for d in parts], w.shape[0]
    piece = BACK_ONE if sum(counts) == 1 else BACK_FEW
    tall = math.gcd(inputs, ROWS_BESIDE) if beside else piece.inputs
    dxs = call(
        functools.partial(_turned_kernel, counts, piece, tall), [(n * inputs,) for n in counts],
        *(d.ravel() for d in parts), w.ravel(), programs=inputs // tall, warps=piece.warps, after=after,
    )  # fmt: skip
    return [dx.reshape(n, inputs) for dx, n in zip(dxs, counts, strict=True)]
