"""What is made of rows that come out of a projection, forwards and back, in one kernel: Q, max Q, SPR's guesses.

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
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import activate, activation_gradient, call, count, load, total_of
from headrace.engines.reference.networks import Layer
from headrace.engines.reference.objectives import SHORTEST

TALL = 16  # rows of a predictor at a time: one for each warp


class Slopes(NamedTuple):
    """A value, and its gradients: of the rows that came out of the projection, and of the layer behind it."""

    value: jax.Array
    rows: jax.Array
    layer: Layer


def _values_kernel(n_actions: int, y: Any, b: Any, head: Any, q: Any) -> None:
    at = count(y.shape[0], 1)
    a, _ = activate(load(y, at) + load(b, at))
    for i in range(n_actions):
        q[i] = _value(a, head, n_actions, i)


def _value(a: jax.Array, head: Any, n_actions: int, action: Any) -> jax.Array:
    return jnp.sum(a * load(head, count(a.shape[1], 1) * n_actions + action))


def values_of(b: jax.Array, head: Layer, y: jax.Array) -> jax.Array:
    """Q(s, .), from the row that came out of the projection without its bias."""
    n_actions = head["w"].shape[1]
    kernel = functools.partial(_values_kernel, n_actions)
    return call(kernel, [(n_actions,)], y.ravel(), b, head["w"].ravel(), warps=1)[0]


def _value_kernel(
    choose: Any, n_actions: int, y: Any, b: Any, head: Any, given: Any, value: Any, d_y: Any, d_head: Any
) -> None:
    """Of one action, and the way back from there."""
    at = count(y.shape[0], 1)
    a, scale = activate(load(y, at) + load(b, at))
    action = choose(a, head, n_actions, given[0])
    value[0] = _value(a, head, n_actions, action)
    plt.store(d_y.at[at], activation_gradient(a, scale, load(head, at * n_actions + action)))
    for i in range(n_actions):
        plt.store(d_head.at[at * n_actions + i], jnp.where(action == i, a, 0.0))


def _this(a: jax.Array, head: Any, n_actions: int, action: jax.Array) -> jax.Array:
    return action


def _best(a: jax.Array, head: Any, n_actions: int, actions: jax.Array) -> jax.Array:
    """The first of the best among so many; what is not a number is the largest, as it is to argmax."""
    best, action = _value(a, head, n_actions, 0), jnp.int32(0)
    for i in range(1, n_actions):
        q = _value(a, head, n_actions, i)
        better = (i < actions) & ((q > best) | ((q != q) & (best == best)))
        best, action = jnp.where(better, q, best), jnp.where(better, i, action)
    return action


def _valued(choose: Any, given: Any, b: jax.Array, head: Layer, y: jax.Array) -> Slopes:
    w = head["w"]
    value, d_y, d_head = call(
        functools.partial(_value_kernel, choose, w.shape[1]), [(1,), (y.size,), (w.size,)],
        y.ravel(), b, w.ravel(), jnp.asarray(given, jnp.int32).reshape(1),
        warps=1,
    )  # fmt: skip
    return Slopes(value[0], d_y.reshape(1, -1), {"w": d_head.reshape(w.shape)})


value_of = functools.partial(_valued, _this)  # Q(s, a) of the action given, from a row as above
best_of = functools.partial(_valued, _best)  # max Q(s, .) of so many actions


def _guess_kernel(
    truths: Sequence[int], tall: int, y: Any, b: Any, w: Any, bias: Any, shares: Any, *refs: Any
) -> None:  # fmt: skip
    """The predictor is gone through twice: for the guesses, and once it is known how they would be better."""
    *seen, cosines, d_y, d_w, d_bias = refs
    inputs, width, rows = b.shape[0], bias.shape[0], sum(truths)
    column = count(width, 1)

    def tile_at(i: Any) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
        row = i * tall + count(tall, 0)
        moved = load(b, row)
        return row, load(w, row * width + column), [load(y, k * inputs + row) + moved for k in range(rows)]

    def forwards(i: Any, totals: list[jax.Array]) -> list[jax.Array]:
        _, tile, xs = tile_at(i)
        return [total + x * tile for total, x in zip(totals, xs, strict=True)]

    begun = [jnp.zeros((tall, width), jnp.float32)] * rows
    totals = jax.lax.fori_loop(0, inputs // tall, forwards, begun)
    wanted = [(ref, k) for ref, n in zip(seen, truths, strict=True) for k in range(n)]
    slopes = []
    for k, (ref, place) in enumerate(wanted):
        guess = jnp.sum(totals[k], axis=0)[None, :] + load(bias, column)
        cosines[k], slope = _cosine(guess, load(ref, place * width + column) + load(b, column))
        slopes.append(shares[k] * slope)
    plt.store(d_bias.at[column], total_of(slopes))

    def back(i: Any, _: None) -> None:
        row, tile, xs = tile_at(i)
        plt.store(d_w.at[row * width + column], total_of(x * slope for x, slope in zip(xs, slopes, strict=True)))
        at = i * tall + jax.lax.iota(jnp.int32, tall)
        for k, slope in enumerate(slopes):
            plt.store(d_y.at[k * inputs + at], jnp.sum(tile * slope, axis=1))

    jax.lax.fori_loop(0, inputs // tall, back, None)


def _cosine(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`cosine_similarity` of two rows, and its gradient by the first."""
    product, (short_a, per_a), (_, per_b) = jnp.sum(a * b), _per_length(a), _per_length(b)
    along = jnp.where(short_a, 0.0, product * per_a * per_a)  # the length of a short vector does not count
    return product * per_a * per_b, per_a * per_b * (b - along * a)


def _per_length(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Whether a row is too short to count, and 1 / the length that counts."""
    square = jnp.sum(a * a)
    short = square < SHORTEST**2  # and no `maximum`, which on a card drops what is not a number
    return short, jax.lax.rsqrt(jnp.where(short, SHORTEST**2, square))


def guessed(shares: jax.Array, b: jax.Array, predictor: Layer, y: jax.Array, truths: Sequence[jax.Array]) -> Slopes:
    """The cosine of each guess with its truth, and the gradient of their sum, each having a share in it.

    y and the truths came out of the projection without its bias."""
    (rows, inputs), w, bias = y.shape, predictor["w"], predictor["b"]
    tall = math.gcd(inputs, TALL)
    cosines, d_y, d_w, d_bias = call(
        functools.partial(_guess_kernel, [len(x) for x in truths], tall), [(rows,), (y.size,), (w.size,), (bias.size,)],
        y.ravel(), b, w.ravel(), bias, shares, *(x.ravel() for x in truths),
        warps=tall,
    )  # fmt: skip
    return Slopes(cosines, d_y.reshape(rows, inputs), {"w": d_w.reshape(w.shape), "b": d_bias})
