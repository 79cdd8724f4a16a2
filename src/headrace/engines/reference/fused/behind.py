"""What is made of the rows that come out of the projection, forwards and back, in one kernel: max Q, and SPR's guesses.

As products, sums and passes over elements each would be a dozen kernels, one waiting for another, between the pass in
which rows go through the projection and the one in which their slopes come back (decision 0030).
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

from headrace.engines.reference.fused.programs import activate, activation_gradient, call, count, load, total_of
from headrace.engines.reference.later import promised
from headrace.engines.reference.networks import Layer
from headrace.engines.reference.objectives import SHORTEST

MOST, WARPS = 2**14, 8  # weights of a predictor that a program has in its registers at once


class Slopes(NamedTuple):
    """A value, and its gradients: of the rows that came out of the projection, and, once it is asked for, of
    the layer behind it."""

    value: jax.Array
    rows: jax.Array
    layer: Any


def _best_kernel(n_actions: int, y: Any, b: Any, head: Any, actions: Any, value: Any, d_y: Any, d_head: Any) -> None:
    """Q(s, .) action by action: the first of the largest is followed back."""
    at = count(y.shape[0], 1)
    a, scale = activate(load(y, at) + load(b, at))
    best, action = jnp.sum(a * load(head, at * n_actions)), jnp.int32(0)
    for i in range(1, n_actions):
        q = jnp.sum(a * load(head, at * n_actions + i))
        # What is not a number is the largest, as it is to argmax.
        better = (i < actions[0]) & ((q > best) | ((q != q) & (best == best)))
        best, action = jnp.where(better, q, best), jnp.where(better, i, action)
    value[0] = best
    plt.store(d_y.at[at], activation_gradient(a, scale, load(head, at * n_actions + action)))
    for i in range(n_actions):
        plt.store(d_head.at[at * n_actions + i], jnp.where(action == i, a, 0.0))


def best_of(n_actions: int, actions: Any, b: jax.Array, head: Layer, y: jax.Array) -> Slopes:
    """max Q of the first `actions` actions, from one row that came out of the projection without its bias."""
    value, d_y, d_head = call(
        functools.partial(_best_kernel, n_actions), [(1,), (y.size,), (head["w"].size,)],
        y.ravel(), b, head["w"].ravel(), jnp.asarray(actions, jnp.int32).reshape(1),
        warps=1,
    )  # fmt: skip
    return Slopes(value[0], d_y.reshape(1, -1), {"w": d_head.reshape(head["w"].shape)})


def _guess_kernel(truths: Sequence[int], y: Any, b: Any, w: Any, bias: Any, shares: Any, *refs: Any) -> None:
    """The predictor is gone through twice: for the guesses, and once it is known how they would be better."""
    *seen, cosines, d_y, slopes = refs
    inputs, width, rows = b.shape[0], bias.shape[0], sum(truths)
    tall = min(inputs, MOST // width)
    column = count(width, 1)

    def tile_at(i: Any) -> tuple[jax.Array, jax.Array]:
        row = i * tall + count(tall, 0)
        return row, load(w, row * width + column)

    def guesses(i: Any, totals: list[jax.Array]) -> list[jax.Array]:
        row, tile = tile_at(i)
        moved = load(b, row)
        products = (jnp.sum((load(y, k * inputs + row) + moved) * tile, axis=0)[None, :] for k in range(rows))
        return [total + x for total, x in zip(totals, products, strict=True)]

    guess = [load(bias, column)] * rows
    for i in range(inputs // tall):
        guess = guesses(i, guess)
    wanted = [(ref, k) for ref, n in zip(seen, truths, strict=True) for k in range(n)]
    back = []
    for k, (ref, place) in enumerate(wanted):
        cosines[k], slope = _cosine(guess[k], load(ref, place * width + column) + load(b, column))
        back.append(shares[k] * slope)
        plt.store(slopes.at[k * width + column], back[k])
    for i in range(inputs // tall):
        _, tile = tile_at(i)
        at = i * tall + jax.lax.iota(jnp.int32, tall)
        for k, slope in enumerate(back):
            plt.store(d_y.at[k * inputs + at], jnp.sum(tile * slope, axis=1))


def _cosine(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`cosine_similarity` of two rows, and its gradient by the first."""
    square, product = jnp.sum(a * a), jnp.sum(a * b)
    per_a = jax.lax.rsqrt(jnp.maximum(square, SHORTEST**2))
    per_b = jax.lax.rsqrt(jnp.maximum(jnp.sum(b * b), SHORTEST**2))
    along = jnp.where(square > SHORTEST**2, product * per_a * per_a, 0.0)  # a vector that counts as longer than it is
    return product * per_a * per_b, per_a * per_b * (b - along * a)


def _outer_kernel(rows: int, tall: int, y: Any, b: Any, slopes: Any, d_w: Any, d_bias: Any) -> None:
    """Some rows of the gradient of a predictor's weights; the first program has the biases'."""
    inputs, width = b.shape[0], d_bias.shape[0]
    row, column = pl.program_id(0) * tall + count(tall, 0), count(width, 1)
    moved = load(b, row)
    slope = [load(slopes, k * width + column) for k in range(rows)]
    total = total_of((load(y, k * inputs + row) + moved) * slope[k] for k in range(rows))
    plt.store(d_w.at[row * width + column], total)

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        plt.store(d_bias.at[column], total_of(slope))


def guessed(shares: jax.Array, b: jax.Array, predictor: Layer, y: jax.Array, truths: Sequence[jax.Array]) -> Slopes:
    """The cosine of each guess with its truth, and the gradient of their sum, each having a share in it.

    y and the truths came out of the projection without its bias."""
    (rows, inputs), w, bias = y.shape, predictor["w"], predictor["b"]
    cosines, d_y, slopes = call(
        functools.partial(_guess_kernel, [len(x) for x in truths]), [(rows,), (y.size,), (rows * bias.size,)],
        y.ravel(), b, w.ravel(), bias, shares, *(x.ravel() for x in truths),
        warps=WARPS,
    )  # fmt: skip

    def gradient(*after: jax.Array) -> Layer:
        tall = math.gcd(inputs, 32)
        d_w, d_bias = call(
            functools.partial(_outer_kernel, rows, tall), [(w.size,), (bias.size,)], y.ravel(), b, slopes,
            programs=inputs // tall, after=after,
        )  # fmt: skip
        return {"w": d_w.reshape(w.shape), "b": d_bias}

    return Slopes(cosines, d_y.reshape(rows, inputs), promised(gradient))
