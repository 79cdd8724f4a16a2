"""The dynamics along a whole window as three kernels: forward, gradient, and the gradient of the weights.

A layer's product is made before its windows are: every position times the weights of all nine taps, kept in memory that
all threads see, from where each position gathers what its neighbours have for it. Beyond the border lies the mirror
image.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import (
    BLOCKS,
    TAPS,
    activate,
    activation_gradient,
    call,
    count,
    dot,
    load,
    tap_and_channel,
    tile_of,
    total_of,
    wait,
)
from headrace.engines.reference.networks import Layer, product


def _mirrored(i: jax.Array, size: int) -> jax.Array:
    i = jnp.abs(i)
    return jnp.where(i < size, i, 2 * (size - 1) - i)


class Latents(NamedTuple):
    """A latent of (rows, columns, channels)."""

    rows: int
    columns: int
    channels: int

    @property
    def positions(self) -> int:
        return self.rows * self.columns

    @property
    def size(self) -> int:
        return self.positions * self.channels

    @property
    def tile(self) -> jax.Array:
        return tile_of(self.positions, self.channels)

    @property
    def room(self) -> int:
        """What the products of one layer take."""
        return TAPS * self.size

    def at(self, axis: int) -> tuple[jax.Array, jax.Array]:
        """Row and column of each position."""
        position = count(self.positions, axis)
        return position // self.columns, position % self.columns

    def sources(self, tap: int, axis: int = 0) -> jax.Array:
        """The position that each one reads at a tap."""
        row, column = self.at(axis)
        return _mirrored(row + tap // 3 - 1, self.rows) * self.columns + _mirrored(column + tap % 3 - 1, self.columns)

    def readers(self, tap: int) -> list[tuple[jax.Array, jax.Array]]:
        """The positions that read each one at a tap, and whether there is such a position."""
        row, column = self.at(0)
        rows, columns = _readers(row, tap // 3 - 1, self.rows), _readers(column, tap % 3 - 1, self.columns)
        return [(r * self.columns + c, r_real & c_real) for r, r_real in rows for c, c_real in columns]


def _readers(i: jax.Array, offset: int, size: int) -> list[tuple[jax.Array, jax.Array]]:
    """Which rows read row i at an offset: the one on its other side, and at the border the one that is mirrored."""
    plain = i - offset, (i >= offset) & (i - offset < size)
    if offset == 0:
        return [plain]
    edge = 0 if offset < 0 else size - 1
    return [plain, (jnp.full_like(i, edge), i == edge - offset)]


def _store_products(latents: Latents, x: jax.Array, weights: list[jax.Array], room: Any) -> None:
    """x times the weights of each tap, as (positions, taps, outputs)."""
    channels = latents.channels
    for block, w in zip(BLOCKS, weights, strict=True):
        at = count(latents.positions, 0) * (TAPS * channels) + block.first * channels + count(w.shape[1], 1)
        plt.store(room.at[at], dot(x, w))
    wait()


def _gather_products(latents: Latents, room: Any) -> jax.Array:
    """The convolution: at each tap, what the source of each position has for it."""
    channels = latents.channels
    return total_of(
        load(room, (latents.sources(tap) * TAPS + tap) * channels + count(channels, 1)) for tap in range(TAPS)
    )


def _gather_gradients(latents: Latents, room: Any) -> jax.Array:
    """The gradient of a layer's input: at each tap, what the readers of each position have for it."""
    channels = latents.channels
    return total_of(
        load(room, (position * TAPS + tap) * channels + count(channels, 1), _wide(real, channels))
        for tap in range(TAPS)
        for position, real in latents.readers(tap)
    )


def _wide(mask: jax.Array, channels: int) -> jax.Array:
    return jnp.broadcast_to(mask, (mask.shape[0], channels))


def _side_by_side(ref: Any, channels: int, rows_of: str) -> list[jax.Array]:
    """A layer's weights with the taps next to each other: (inputs, taps x outputs), or (outputs, taps x inputs)."""
    found = []
    for block in BLOCKS:
        row = count(channels, 0)
        tap, column = tap_and_channel(channels, block, 1)
        i, o = (row, column) if rows_of == "inputs" else (column, row)
        found.append(load(ref, (tap * channels + i) * channels + o))
    return found


def _unroll_kernel(
    latents: Latents, horizon: int, z: Any, w1: Any, b1: Any, w2: Any, b2: Any,
    zs: Any, mids: Any, scales: Any, room1: Any, room2: Any,
) -> None:  # fmt: skip
    """zs: what is imagined after each action; mids: what is between the two layers. Two rooms, so that nobody writes
    where another still reads."""
    size, channels, tile = latents.size, latents.channels, latents.tile
    channel = count(channels, 1)
    first, second = (_side_by_side(w, channels, "inputs") for w in (w1, w2))
    after_bias = load(b2, channel)

    def one(k: Any, z: jax.Array) -> jax.Array:
        _store_products(latents, z, first, room1)
        mid, s = activate(_gather_products(latents, room1) + load(b1, k * channels + channel))
        plt.store(mids.at[k * size + tile], mid)
        scales[2 * k] = s
        _store_products(latents, mid, second, room2)
        z, s = activate(_gather_products(latents, room2) + after_bias)
        plt.store(zs.at[k * size + tile], z)
        scales[2 * k + 1] = s
        return z

    jax.lax.fori_loop(0, horizon, one, load(z, tile))


def _unroll_gradient_kernel(
    latents: Latents, horizon: int, w1: Any, w2: Any, zs: Any, mids: Any, scales: Any, d_out: Any,
    dz: Any, d_mids: Any, d_zs: Any, room1: Any, room2: Any,
) -> None:  # fmt: skip
    """d_mids and d_zs: the gradients of both layers' pre-activations."""
    size, tile = latents.size, latents.tile
    first, second = (_side_by_side(w, latents.channels, "outputs") for w in (w1, w2))

    def one(i: Any, d_next: jax.Array) -> jax.Array:
        k = horizon - 1 - i
        at = k * size + tile
        d = activation_gradient(load(zs, at), scales[2 * k + 1], load(d_out, at) + d_next)
        plt.store(d_zs.at[at], d)
        _store_products(latents, d, second, room2)
        d = activation_gradient(load(mids, at), scales[2 * k], _gather_gradients(latents, room2))
        plt.store(d_mids.at[at], d)
        _store_products(latents, d, first, room1)
        return _gather_gradients(latents, room1)

    plt.store(dz.at[tile], jax.lax.fori_loop(0, horizon, one, jnp.zeros(tile.shape, jnp.float32)))


def _weight_gradient_kernel(
    latents: Latents, horizon: int, z: Any, zs: Any, mids: Any, d_mids: Any, d_zs: Any, dw1: Any, dw2: Any
) -> None:
    """One tap of both layers: inputs times gradients, added up over positions and steps."""
    size, channels, tap = latents.size, latents.channels, pl.program_id(0)
    row, column = latents.at(1)
    row, column = _mirrored(row + tap // 3 - 1, latents.rows), _mirrored(column + tap % 3 - 1, latents.columns)
    source = (row * latents.columns + column) * channels + count(channels, 0)  # (channels, positions)

    def products(inputs: Any, k_in: Any, d: Any, k: Any) -> jax.Array:
        return dot(load(inputs, k_in * size + source), load(d, k * size + latents.tile))

    def add(k: Any, totals: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return totals[0] + products(zs, k - 1, d_mids, k), totals[1] + products(mids, k, d_zs, k)

    begun = products(z, 0, d_mids, 0), products(mids, 0, d_zs, 0)
    at = tap * channels * channels + tile_of(channels, channels)
    for ref, total in zip((dw1, dw2), jax.lax.fori_loop(1, horizon, add, begun), strict=True):
        plt.store(ref.at[at], total)


@jax.custom_vjp
def _unrolled(z: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> jax.Array:
    """The latents after each of a row of actions, each of which `b1` holds as a bias."""
    return _unroll_forward(z, w1, b1, w2, b2)[0]


def _unroll_forward(z: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> tuple[jax.Array, Any]:
    latents, horizon = Latents(*z.shape), b1.shape[0]
    zs, mids, scales, *_ = call(
        functools.partial(_unroll_kernel, latents, horizon),
        [(horizon * z.size,), (horizon * z.size,), (2 * horizon,), (latents.room,), (latents.room,)],
        z.ravel(), w1.ravel(), b1.ravel(), w2.ravel(), b2,
    )  # fmt: skip
    return zs.reshape(horizon, *z.shape), (z.ravel(), w1, w2, zs, mids, scales)


def _unroll_backward(kept: Any, d_out: jax.Array) -> Any:
    z, w1, w2, zs, mids, scales = kept
    latents, horizon = Latents(*d_out.shape[1:]), d_out.shape[0]
    many, room = (horizon * latents.size,), (latents.room,)
    dz, d_mids, d_zs, *_ = call(
        functools.partial(_unroll_gradient_kernel, latents, horizon),
        [(latents.size,), many, many, room, room],
        w1.ravel(), w2.ravel(), zs, mids, scales, d_out.ravel(),
    )  # fmt: skip
    dw1, dw2 = call(
        functools.partial(_weight_gradient_kernel, latents, horizon),
        [(w1.size,), (w2.size,)],
        z, zs, mids, d_mids, d_zs,
        programs=TAPS, warps=2,
    )  # fmt: skip
    db1 = jnp.sum(d_mids.reshape(horizon, latents.positions, latents.channels), axis=1)
    db2 = jnp.sum(d_zs.reshape(-1, latents.channels), axis=0)
    return dz.reshape(d_out.shape[1:]), dw1.reshape(w1.shape), db1, dw2.reshape(w2.shape), db2


_unrolled.defvjp(_unroll_forward, _unroll_backward)


def unrolled(layers: list[Layer], z: jax.Array, actions: jax.Array) -> jax.Array:
    """What the dynamics imagine after each action, one-hot, beginning at `z`.

    The planes of an action are constant, and mirroring leaves them so: what they add is the same at every position.
    """
    channels = z.shape[-1]
    w1, w2 = layers[0]["w"], layers[1]["w"]
    b1 = layers[0]["b"] + product(actions, jnp.sum(w1[:, :, channels:, :], axis=(0, 1)))
    return _unrolled(z, w1[:, :, :channels, :], b1, w2, layers[1]["b"])
