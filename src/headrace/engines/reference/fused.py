"""The convolutions of a small network as one kernel each, for fleets on an NVIDIA card.

A fleet of MinAtar streams is bound by the number of kernels that a step starts: as products, reductions and passes over
elements, a convolution with LayerNorm and LeakyReLU is five of them, over ten with its gradient, and SPR unrolls ten
such layers. Here one program of the card keeps one stream's image in its registers: `convolved` is a layer, `unrolled`
the dynamics along a whole window. Sums have a fixed order and nothing is added atomically, so results are the same at
every run.

All images are flat inside: element (row, column, channel) is at (row * columns + column) * channels + channel.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.agents import Conv
from headrace.agents.network import latent_shape
from headrace.engines.reference.networks import (
    LAYER_NORM_EPS,
    NEGATIVE_SLOPE,
    Layer,
    dense_in,
    encode,
    product,
    unroll,
)

TAPS = 9  # of a 3x3 kernel
PRECISION: Any = jax.lax.Precision.HIGHEST  # float32; splitting factors for tensor cores is no faster at this size
INTERPRET = False  # tests run the kernels on a CPU


class Windows(NamedTuple):
    """Where the 3x3 windows of an image lie: fixed numbers, known when a kernel is made.

    Position p of the output reads, at tap t and channel c, the image at start(p) + step(t) + c.
    """

    rows: int  # of the output
    columns: int
    stride: int  # from one row of the image to the next, in pixels
    channels: int  # of the image
    width: int  # `channels` up to a power of two

    @property
    def positions(self) -> int:
        return self.rows * self.columns


class Block(NamedTuple):
    """Some of a kernel's nine taps: a product's sides must be powers of two, so eight come first, then the last."""

    first: int
    taps: int


BLOCKS = (Block(0, 8), Block(8, 1))


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.dot(a, b, precision=PRECISION, preferred_element_type=jnp.float32)


def _load(ref: Any, index: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    return plt.load(ref.at[index], mask=mask, other=None if mask is None else 0.0)


def _wait() -> None:
    """What was stored before is there to be loaded after, by whichever thread."""
    if not INTERPRET:
        plt.debug_barrier()


def _total(terms: Iterable[jax.Array]) -> jax.Array:
    return functools.reduce(jnp.add, terms)


def _count(n: int, axis: int) -> jax.Array:
    """0 .. n - 1 along an axis of a matrix that has but one entry along the other."""
    return jax.lax.broadcasted_iota(jnp.int32, (n, 1) if axis == 0 else (1, n), axis)


def _tap_and_channel(width: int, block: Block, axis: int) -> tuple[jax.Array, jax.Array]:
    n = _count(block.taps * width, axis)
    return block.first + n // width, n % width


def _window_matrix(shape: Windows, image: Any, start: Any, block: Block, axis: int) -> jax.Array:
    """(positions, taps x channels) where taps run along axis 1, its transpose where they run along axis 0."""
    tap, channel = _tap_and_channel(shape.width, block, axis)
    position = _count(shape.positions, 1 - axis)
    where = (position // shape.columns * shape.stride + position % shape.columns) * shape.channels + start
    index = where + ((tap // 3 * shape.stride + tap % 3) * shape.channels + channel)
    if shape.width == shape.channels:
        return _load(image, index)
    return _load(image, index, jnp.broadcast_to(channel < shape.channels, index.shape))


def _weight_index(shape: Windows, block: Block, outputs: int) -> tuple[jax.Array, jax.Array]:
    """Where each entry of the (taps x channels, outputs) weight matrix lies, and whether it is real."""
    tap, channel = _tap_and_channel(shape.width, block, 0)
    index = (tap * shape.channels + channel) * outputs + _count(outputs, 1)
    return index, jnp.broadcast_to(channel < shape.channels, index.shape)


def _tile(positions: int, outputs: int) -> jax.Array:
    """Where the elements of a (positions, channels) image lie."""
    return _count(positions, 0) * outputs + _count(outputs, 1)


def _weights(shape: Windows, ref: Any, outputs: int) -> list[jax.Array]:
    return [_load(ref, *_weight_index(shape, block, outputs)) for block in BLOCKS]


def _store_weights(shape: Windows, ref: Any, gradients: Any) -> None:
    for block, gradient in zip(BLOCKS, gradients, strict=True):
        index, real = _weight_index(shape, block, gradient.shape[1])
        plt.store(ref.at[index], gradient, mask=real)


def _products(shape: Windows, image: Any, start: Any, weights: list[jax.Array]) -> jax.Array:
    """The convolution without its bias."""
    pairs = zip(BLOCKS, weights, strict=True)
    return _total(_dot(_window_matrix(shape, image, start, block, 1), w) for block, w in pairs)


def _add_weight_gradient(shape: Windows, image: Any, start: Any, d: jax.Array, totals: Any) -> Any:
    pairs = zip(BLOCKS, totals, strict=True)
    return tuple(total + _dot(_window_matrix(shape, image, start, block, 0), d) for block, total in pairs)


def _no_gradient(shape: Windows, outputs: int) -> Any:
    return tuple(jnp.zeros((block.taps * shape.width, outputs), jnp.float32) for block in BLOCKS)


def _activated(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """LeakyReLU(LayerNorm(x)), and 1 / standard deviation."""
    n = x.shape[0] * x.shape[1]
    centred = x - jnp.sum(x) / n
    scale = jax.lax.rsqrt(jnp.sum(centred * centred) / n + LAYER_NORM_EPS)
    normal = centred * scale
    return jnp.where(normal >= 0, normal, NEGATIVE_SLOPE * normal), scale


def _activation_gradient(y: jax.Array, scale: jax.Array, dy: jax.Array) -> jax.Array:
    """The gradient of the pre-activation, from that of the activation `y`."""
    n = y.shape[0] * y.shape[1]
    normal = jnp.where(y >= 0, y, y / NEGATIVE_SLOPE)
    d = jnp.where(y >= 0, dy, NEGATIVE_SLOPE * dy)
    return scale * (d - jnp.sum(d) / n - normal * (jnp.sum(d * normal) / n))


def _call(
    kernel: Any, out_shapes: list[tuple[int, ...]], *operands: jax.Array, programs: int = 1, warps: int = 4
) -> Any:
    """So many programs of the kernel; `vmap` makes it so many for each stream."""
    return pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in out_shapes],
        grid=(programs,),
        compiler_params=None if INTERPRET else plt.CompilerParams(num_warps=warps, num_stages=1),
        interpret=INTERPRET,
    )(*operands)


# A layer --------------------------------------------------------------------------------------------------------------


def _convolve_kernel(shape: Windows, x: Any, w: Any, b: Any, y: Any, scale: Any) -> None:
    outputs = b.shape[0]
    total = _products(shape, x, 0, _weights(shape, w, outputs)) + b[...][None, :]
    activated, s = _activated(total)
    plt.store(y.at[_tile(shape.positions, outputs)], activated)
    scale[0] = s


def _convolve_gradient_kernel(shape: Windows, x: Any, y: Any, scale: Any, dy: Any, dw: Any, db: Any) -> None:
    outputs = db.shape[0]
    tile = _tile(shape.positions, outputs)
    d = _activation_gradient(_load(y, tile), scale[0], _load(dy, tile))
    _store_weights(shape, dw, _add_weight_gradient(shape, x, 0, d, _no_gradient(shape, outputs)))
    db[...] = jnp.sum(d, axis=0)


def _windows_of(image_shape: tuple[int, ...]) -> Windows:
    rows, columns, channels = image_shape
    return Windows(rows - 2, columns - 2, columns, channels, max(16, _power(channels)))


@jax.custom_vjp
def convolved(w: jax.Array, b: jax.Array, image: jax.Array) -> jax.Array:
    """LeakyReLU(LayerNorm(conv(image))) of a 3x3 VALID convolution. The image takes no gradient."""
    return _convolve_forward(w, b, image)[0]


def _convolve_forward(w: jax.Array, b: jax.Array, image: jax.Array) -> tuple[jax.Array, Any]:
    shape, outputs = _windows_of(image.shape), b.shape[0]
    y, scale = _call(
        functools.partial(_convolve_kernel, shape), [(shape.positions * outputs,), (1,)], image.ravel(), w.ravel(), b
    )
    return y.reshape(shape.rows, shape.columns, outputs), (image, y, scale, w)


def _convolve_backward(kept: Any, dy: jax.Array) -> Any:
    image, y, scale, w = kept
    dw, db = _call(
        functools.partial(_convolve_gradient_kernel, _windows_of(image.shape)),
        [(w.size,), (w.shape[-1],)], image.ravel(), y, scale, dy.ravel(),
    )  # fmt: skip
    return dw.reshape(w.shape), db, jnp.zeros_like(image)


convolved.defvjp(_convolve_forward, _convolve_backward)


# The dynamics along a window ------------------------------------------------------------------------------------------
#
# A layer's product is made before its windows are: every position times the weights of all nine taps, kept in memory
# that all threads see, from where each position gathers what its neighbours have for it. Beyond the border lies the
# mirror image.


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
        return _tile(self.positions, self.channels)

    @property
    def room(self) -> int:
        """What the products of one layer take."""
        return TAPS * self.size

    def at(self, axis: int) -> tuple[jax.Array, jax.Array]:
        """Row and column of each position."""
        position = _count(self.positions, axis)
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
        at = _count(latents.positions, 0) * (TAPS * channels) + block.first * channels + _count(w.shape[1], 1)
        plt.store(room.at[at], _dot(x, w))
    _wait()


def _gather_products(latents: Latents, room: Any) -> jax.Array:
    """The convolution: at each tap, what the source of each position has for it."""
    channels = latents.channels
    return _total(
        _load(room, (latents.sources(tap) * TAPS + tap) * channels + _count(channels, 1)) for tap in range(TAPS)
    )


def _gather_gradients(latents: Latents, room: Any) -> jax.Array:
    """The gradient of a layer's input: at each tap, what the readers of each position have for it."""
    channels = latents.channels
    return _total(
        _load(room, (position * TAPS + tap) * channels + _count(channels, 1), _wide(real, channels))
        for tap in range(TAPS)
        for position, real in latents.readers(tap)
    )


def _wide(mask: jax.Array, channels: int) -> jax.Array:
    return jnp.broadcast_to(mask, (mask.shape[0], channels))


def _side_by_side(ref: Any, channels: int, rows_of: str) -> list[jax.Array]:
    """A layer's weights with the taps next to each other: (inputs, taps x outputs), or (outputs, taps x inputs)."""
    found = []
    for block in BLOCKS:
        row = _count(channels, 0)
        tap, column = _tap_and_channel(channels, block, 1)
        i, o = (row, column) if rows_of == "inputs" else (column, row)
        found.append(_load(ref, (tap * channels + i) * channels + o))
    return found


def _unroll_kernel(
    latents: Latents, horizon: int, z: Any, w1: Any, b1: Any, w2: Any, b2: Any,
    zs: Any, mids: Any, scales: Any, room1: Any, room2: Any,
) -> None:  # fmt: skip
    """zs: what is imagined after each action; mids: what is between the two layers. Two rooms, so that nobody writes
    where another still reads."""
    size, channels, tile = latents.size, latents.channels, latents.tile
    channel = _count(channels, 1)
    first, second = (_side_by_side(w, channels, "inputs") for w in (w1, w2))
    after_bias = _load(b2, channel)

    def one(k: Any, z: jax.Array) -> jax.Array:
        _store_products(latents, z, first, room1)
        mid, s = _activated(_gather_products(latents, room1) + _load(b1, k * channels + channel))
        plt.store(mids.at[k * size + tile], mid)
        scales[2 * k] = s
        _store_products(latents, mid, second, room2)
        z, s = _activated(_gather_products(latents, room2) + after_bias)
        plt.store(zs.at[k * size + tile], z)
        scales[2 * k + 1] = s
        return z

    jax.lax.fori_loop(0, horizon, one, _load(z, tile))


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
        d = _activation_gradient(_load(zs, at), scales[2 * k + 1], _load(d_out, at) + d_next)
        plt.store(d_zs.at[at], d)
        _store_products(latents, d, second, room2)
        d = _activation_gradient(_load(mids, at), scales[2 * k], _gather_gradients(latents, room2))
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
    source = (row * latents.columns + column) * channels + _count(channels, 0)  # (channels, positions)

    def products(inputs: Any, k_in: Any, d: Any, k: Any) -> jax.Array:
        return _dot(_load(inputs, k_in * size + source), _load(d, k * size + latents.tile))

    def add(k: Any, totals: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return totals[0] + products(zs, k - 1, d_mids, k), totals[1] + products(mids, k, d_zs, k)

    begun = products(z, 0, d_mids, 0), products(mids, 0, d_zs, 0)
    at = tap * channels * channels + _tile(channels, channels)
    for ref, total in zip((dw1, dw2), jax.lax.fori_loop(1, horizon, add, begun), strict=True):
        plt.store(ref.at[at], total)


@jax.custom_vjp
def _unrolled(z: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> jax.Array:
    """The latents after each of a row of actions, each of which `b1` holds as a bias."""
    return _unroll_forward(z, w1, b1, w2, b2)[0]


def _unroll_forward(z: jax.Array, w1: jax.Array, b1: jax.Array, w2: jax.Array, b2: jax.Array) -> tuple[jax.Array, Any]:
    latents, horizon = Latents(*z.shape), b1.shape[0]
    zs, mids, scales, *_ = _call(
        functools.partial(_unroll_kernel, latents, horizon),
        [(horizon * z.size,), (horizon * z.size,), (2 * horizon,), (latents.room,), (latents.room,)],
        z.ravel(), w1.ravel(), b1.ravel(), w2.ravel(), b2,
    )  # fmt: skip
    return zs.reshape(horizon, *z.shape), (z.ravel(), w1, w2, zs, mids, scales)


def _unroll_backward(kept: Any, d_out: jax.Array) -> Any:
    z, w1, w2, zs, mids, scales = kept
    latents, horizon = Latents(*d_out.shape[1:]), d_out.shape[0]
    many, room = (horizon * latents.size,), (latents.room,)
    dz, d_mids, d_zs, *_ = _call(
        functools.partial(_unroll_gradient_kernel, latents, horizon),
        [(latents.size,), many, many, room, room],
        w1.ravel(), w2.ravel(), zs, mids, scales, d_out.ravel(),
    )  # fmt: skip
    dw1, dw2 = _call(
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


# A dense layer on a few rows ------------------------------------------------------------------------------------------


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
    return product(dy, w.T), _total(outer)


rows_times.defvjp(_rows_forward, _rows_backward)


STRETCH, OUTPUTS = 128, 32  # inputs and outputs that one program takes at a time


def _vector_kernel(x: Any, w: Any, y: Any) -> None:
    inputs, outputs = x.shape[0], y.shape[0]
    column = pl.program_id(0) * OUTPUTS + _count(OUTPUTS, 1)
    total = jnp.zeros((STRETCH, OUTPUTS), jnp.float32)
    for start in range(0, inputs, STRETCH):
        row = start + _count(STRETCH, 0)
        total = total + _load(x, row) * _load(w, row * outputs + column)
    plt.store(y.at[pl.program_id(0) * OUTPUTS + jax.lax.iota(jnp.int32, OUTPUTS)], jnp.sum(total, axis=0))


@jax.custom_vjp
def vector_times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x @ w for a vector x: as fast as the weights can be read."""
    return _call(_vector_kernel, [(w.shape[1],)], x, w.ravel(), programs=w.shape[1] // OUTPUTS, warps=4)[0]


def _vector_forward(x: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    return vector_times(x, w), (x, w)


def _vector_backward(kept: Any, dy: jax.Array) -> Any:
    x, w = kept
    return product(w, dy), x[:, None] * dy[None, :]


vector_times.defvjp(_vector_forward, _vector_backward)


# A network that uses them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fused:
    """A small convolutional network whose layers are kernels of their own."""

    network: Conv


@encode.register
def _(network: Fused, layers: list[Layer], obs: jax.Array) -> jax.Array:
    return convolved(layers[0]["w"], layers[0]["b"], obs)


@dense_in.register
def _(network: Fused, layer: Layer, x: jax.Array) -> jax.Array:
    times = rows_times if x.ndim == 2 else vector_times
    return times(x, layer["w"]) + layer["b"]


@unroll.register
def _(network: Fused, layers: list[Layer], z: jax.Array, actions: jax.Array) -> jax.Array:
    return unrolled(layers, z, actions)


def fused_where_it_fits(network: Any, observation_shape: tuple[int, ...]) -> Any:
    """The network as kernels, where it is one 3x3 layer whose latent one program can hold; else as it is."""
    if not isinstance(network, Conv) or (network.kernels, network.strides) != (((3, 3),), ((1, 1),)):
        return network
    rows, columns, channels = latent_shape(network, observation_shape)
    sides = rows * columns, channels
    powers = all(n >= 16 and n == _power(n) for n in sides)  # what a product's sides may be
    small = rows * columns <= 64 and channels <= 16 and observation_shape[2] <= 16 and min(rows, columns) >= 4
    whole = rows * columns * channels % STRETCH == 0 and network.hidden % OUTPUTS == 0
    return Fused(network) if powers and small and whole else network
