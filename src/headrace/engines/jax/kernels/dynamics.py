"""The dynamics along a whole window as three kernels: forward, gradient, and the gradient of the weights.

Every position's products with all nine taps are made first and put into a room that all threads see; then each gathers
what is its own. Backward a position has more readers than taps, because beyond the border lies the mirror image.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.definition.networks import Layer, product
from headrace.engines.jax.kernels.layer import Taps
from headrace.engines.jax.kernels.programs import (
    TAPS,
    activate,
    activation_gradient,
    call,
    count,
    dot,
    dot_of_parts,
    load,
    tile_of,
    total_of,
    wait,
)

FOURS = Taps(0, 4), Taps(4, 4), Taps(8, 1)  # a product's sides must be powers of two, and its factors find room


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

    def at(self, axis: int) -> tuple[jax.Array, jax.Array]:
        """Row and column of each position."""
        position = count(self.positions, axis)
        return position // self.columns, position % self.columns

    def sources(self, tap: Any, axis: int = 0) -> jax.Array:
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


def _store_products(latents: Latents, image: jax.Array, weights: list[jax.Array], room: Any) -> None:
    """The image times the weights of each tap, as (positions, taps, channels)."""
    for taps, w in zip(FOURS, weights, strict=True):
        at = count(latents.positions, 0) * (TAPS * latents.channels) + taps.first * latents.channels
        plt.store(room.at[at + count(w.shape[1], 1)], dot_of_parts(image, w))
    wait()


def _gathered(latents: Latents, room: Any) -> jax.Array:
    """A convolution: at each tap, what each position reads there."""
    channel = count(latents.channels, 1)
    return total_of(load(room, (latents.sources(tap) * TAPS + tap) * latents.channels + channel) for tap in range(TAPS))


def _gather_gradients(latents: Latents, room: Any) -> jax.Array:
    """The gradient of a layer's input: at each tap, what the readers of each position have for it."""
    shape, channel = (latents.positions, latents.channels), count(latents.channels, 1)
    return total_of(
        load(room, (position * TAPS + tap) * latents.channels + channel, jnp.broadcast_to(real, shape))
        for tap in range(TAPS)
        for position, real in latents.readers(tap)
    )


def _weights(ref: Any, channels: int) -> list[jax.Array]:
    """(inputs, taps x outputs): the weights of all taps next to each other."""
    found = []
    for taps in FOURS:
        tap, output = taps.along(channels, 1)
        found.append(load(ref, (tap * _inputs(ref, channels) + count(channels, 0)) * channels + output))
    return found


def _turned_weights(ref: Any, channels: int) -> list[jax.Array]:
    """(outputs, taps x inputs)."""
    found = []
    for taps in FOURS:
        tap, i = taps.along(channels, 1)
        found.append(load(ref, (tap * _inputs(ref, channels) + i) * channels + count(channels, 0)))
    return found


def _inputs(w: Any, channels: int) -> int:
    """How many a layer has; those beyond `channels` are not read here."""
    return w.shape[0] // (TAPS * channels)


def _unroll_kernel(
    latents: Latents, horizon: int, z: Any, w1: Any, b1: Any, w2: Any, b2: Any,
    zs: Any, mids: Any, scales: Any, room1: Any, room2: Any,
) -> None:  # fmt: skip
    """zs: what is imagined after each action; mids: what is between the two layers. Two rooms, so that nobody writes
    where another still reads."""
    size, tile, channel = latents.size, latents.tile, count(latents.channels, 1)
    first, second = (_weights(w, latents.channels) for w in (w1, w2))
    after_bias = load(b2, channel)

    def one(k: Any, z: jax.Array) -> jax.Array:
        at = k * size + tile
        _store_products(latents, z, first, room1)
        before = _gathered(latents, room1) + load(b1, k * latents.channels + channel)
        mid, scales[2 * k] = activate(before)
        plt.store(mids.at[at], mid)
        _store_products(latents, mid, second, room2)
        z, scales[2 * k + 1] = activate(_gathered(latents, room2) + after_bias)
        plt.store(zs.at[at], z)
        return z

    jax.lax.fori_loop(0, horizon, one, load(z, tile))


def _unroll_gradient_kernel(
    latents: Latents, horizon: int, w1: Any, w2: Any, zs: Any, mids: Any, scales: Any, d_out: Any,
    dz: Any, d_mids: Any, d_zs: Any, room1: Any, room2: Any,
) -> None:  # fmt: skip
    """d_mids and d_zs: the gradients of both layers' pre-activations."""
    size, tile = latents.size, latents.tile
    first, second = (_turned_weights(w, latents.channels) for w in (w1, w2))

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
    latents: Latents, horizon: int, z: Any, zs: Any, mids: Any, d_mids: Any, d_zs: Any,
    dw1: Any, dw2: Any, db1: Any, db2: Any,
) -> None:  # fmt: skip
    """One tap of both layers: inputs times gradients, added up over positions and steps. The first program has the
    biases."""
    size, channels, tap = latents.size, latents.channels, pl.program_id(0)
    source = latents.sources(tap, 0) * channels + count(channels, 1)
    at = tap * channels * channels + tile_of(channels, channels)

    def entered(ref: Any, start: Any, ds: Any, k: Any) -> jax.Array:
        d = load(ds, k * size + latents.tile)  # before the other factor, or it takes four times the registers
        return dot(load(ref, start + source).T, d)

    def add_first(k: Any, total: jax.Array) -> jax.Array:
        return total + entered(zs, (k - 1) * size, d_mids, k)

    def add_second(k: Any, total: jax.Array) -> jax.Array:
        return total + entered(mids, k * size, d_zs, k)

    nothing = jnp.zeros((channels, channels), jnp.float32)
    plt.store(dw1.at[at], jax.lax.fori_loop(1, horizon, add_first, entered(z, 0, d_mids, 0)))
    plt.store(dw2.at[at], jax.lax.fori_loop(0, horizon, add_second, nothing))

    @pl.when(tap == 0)
    def _() -> None:
        channel = jax.lax.iota(jnp.int32, channels)
        for k in range(horizon):
            plt.store(db1.at[k * channels + channel], jnp.sum(load(d_mids, k * size + latents.tile), axis=0))
        total = total_of(load(d_zs, k * size + latents.tile) for k in range(horizon))
        plt.store(db2.at[channel], jnp.sum(total, axis=0))


@jax.custom_vjp
def _unrolled(z: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> jax.Array:
    """The latents after each of a row of actions, which `b1` holds as biases; of `w1` no more is read than z's part."""
    return _unroll_forward(z, w1, b1, w2, b2)[0]


def _unroll_forward(z: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> tuple[jax.Array, Any]:
    latents, horizon = Latents(*z.shape), b1.shape[0]
    room = (TAPS * z.size,)
    zs, mids, scales, *_ = call(
        functools.partial(_unroll_kernel, latents, horizon),
        [(horizon * z.size,), (horizon * z.size,), (2 * horizon,), room, room],
        z.ravel(), w1.ravel(), b1.ravel(), w2.ravel(), b2,
    )  # fmt: skip
    return zs.reshape(horizon, *z.shape), (w1, w2, z, zs, mids, scales)


def _unroll_backward(kept: Any, d_out: jax.Array) -> Any:
    w1, w2, z, zs, mids, scales = kept
    latents, horizon = Latents(*d_out.shape[1:]), d_out.shape[0]
    many, room, channels = (horizon * latents.size,), (TAPS * latents.size,), latents.channels
    dz, d_mids, d_zs, *_ = call(
        functools.partial(_unroll_gradient_kernel, latents, horizon), [(latents.size,), many, many, room, room],
        w1.ravel(), w2.ravel(), zs, mids, scales, d_out.ravel(),
    )  # fmt: skip
    dw1, dw2, db1, db2 = call(
        functools.partial(_weight_gradient_kernel, latents, horizon),
        [(w2.size,), (w2.size,), (horizon * channels,), (channels,)],
        z.ravel(), zs, mids, d_mids, d_zs,
        programs=TAPS, warps=1,
    )  # fmt: skip
    unread = w1.shape[2] - channels
    dw1 = jnp.pad(dw1.reshape(w2.shape), ((0, 0), (0, 0), (0, unread), (0, 0)))
    return dz.reshape(d_out.shape[1:]), dw1, db1.reshape(horizon, channels), dw2.reshape(w2.shape), db2


_unrolled.defvjp(_unroll_forward, _unroll_backward)


def unrolled(layers: list[Layer], z: jax.Array, actions: jax.Array) -> jax.Array:
    """What the dynamics imagine after each action, one-hot, beginning at `z`."""
    w1, w2 = layers[0]["w"], layers[1]["w"]
    return _unrolled(z, w1, biases(layers[0]["b"], w1, actions), w2, layers[1]["b"])


def biases(b1: jax.Array, w1: jax.Array, actions: jax.Array) -> jax.Array:
    """Of the first layer, with what each action adds: its planes are constant, also beyond the border: it is the
    same at every position."""
    planes = w1[:, :, w1.shape[2] - actions.shape[1] :, :]
    return b1 + product(actions, jnp.sum(planes, axis=(0, 1)))
