"""A 3x3 convolution with its LayerNorm and LeakyReLU as one kernel, and its gradient as another."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas import triton as plt

from headrace.engines.reference.fused.programs import (
    BLOCKS,
    Block,
    activate,
    activation_gradient,
    call,
    count,
    dot,
    load,
    power,
    tap_and_channel,
    tile_of,
    total_of,
)


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


def _window_matrix(shape: Windows, image: Any, start: Any, block: Block, axis: int) -> jax.Array:
    """(positions, taps x channels) where taps run along axis 1, its transpose where they run along axis 0."""
    tap, channel = tap_and_channel(shape.width, block, axis)
    position = count(shape.positions, 1 - axis)
    where = (position // shape.columns * shape.stride + position % shape.columns) * shape.channels + start
    index = where + ((tap // 3 * shape.stride + tap % 3) * shape.channels + channel)
    if shape.width == shape.channels:
        return load(image, index)
    return load(image, index, jnp.broadcast_to(channel < shape.channels, index.shape))


def _weight_index(shape: Windows, block: Block, outputs: int) -> tuple[jax.Array, jax.Array]:
    """Where each entry of the (taps x channels, outputs) weight matrix lies, and whether it is real."""
    tap, channel = tap_and_channel(shape.width, block, 0)
    index = (tap * shape.channels + channel) * outputs + count(outputs, 1)
    return index, jnp.broadcast_to(channel < shape.channels, index.shape)


def _weights(shape: Windows, ref: Any, outputs: int) -> list[jax.Array]:
    return [load(ref, *_weight_index(shape, block, outputs)) for block in BLOCKS]


def _store_weights(shape: Windows, ref: Any, gradients: Any) -> None:
    for block, gradient in zip(BLOCKS, gradients, strict=True):
        index, real = _weight_index(shape, block, gradient.shape[1])
        plt.store(ref.at[index], gradient, mask=real)


def _products(shape: Windows, image: Any, start: Any, weights: list[jax.Array]) -> jax.Array:
    """The convolution without its bias."""
    pairs = zip(BLOCKS, weights, strict=True)
    return total_of(dot(_window_matrix(shape, image, start, block, 1), w) for block, w in pairs)


def _add_weight_gradient(shape: Windows, image: Any, start: Any, d: jax.Array, totals: Any) -> Any:
    pairs = zip(BLOCKS, totals, strict=True)
    return tuple(total + dot(_window_matrix(shape, image, start, block, 0), d) for block, total in pairs)


def _no_gradient(shape: Windows, outputs: int) -> Any:
    return tuple(jnp.zeros((block.taps * shape.width, outputs), jnp.float32) for block in BLOCKS)


def _convolve_kernel(shape: Windows, x: Any, w: Any, b: Any, y: Any, scale: Any) -> None:
    outputs = b.shape[0]
    total = _products(shape, x, 0, _weights(shape, w, outputs)) + b[...][None, :]
    activated, s = activate(total)
    plt.store(y.at[tile_of(shape.positions, outputs)], activated)
    scale[0] = s


def _convolve_gradient_kernel(shape: Windows, x: Any, y: Any, scale: Any, dy: Any, dw: Any, db: Any) -> None:
    outputs = db.shape[0]
    tile = tile_of(shape.positions, outputs)
    d = activation_gradient(load(y, tile), scale[0], load(dy, tile))
    _store_weights(shape, dw, _add_weight_gradient(shape, x, 0, d, _no_gradient(shape, outputs)))
    db[...] = jnp.sum(d, axis=0)


def _windows_of(image_shape: tuple[int, ...]) -> Windows:
    rows, columns, channels = image_shape
    return Windows(rows - 2, columns - 2, columns, channels, max(16, power(channels)))


@jax.custom_vjp
def convolved(w: jax.Array, b: jax.Array, image: jax.Array) -> jax.Array:
    """LeakyReLU(LayerNorm(conv(image))) of a 3x3 VALID convolution. The image takes no gradient."""
    return _convolve_forward(w, b, image)[0]


def _convolve_forward(w: jax.Array, b: jax.Array, image: jax.Array) -> tuple[jax.Array, Any]:
    shape, outputs = _windows_of(image.shape), b.shape[0]
    y, scale = call(
        functools.partial(_convolve_kernel, shape), [(shape.positions * outputs,), (1,)], image.ravel(), w.ravel(), b
    )
    return y.reshape(shape.rows, shape.columns, outputs), (image, y, scale, w)


def _convolve_backward(kept: Any, dy: jax.Array) -> Any:
    image, y, scale, w = kept
    dw, db = call(
        functools.partial(_convolve_gradient_kernel, _windows_of(image.shape)),
        [(w.size,), (w.shape[-1],)], image.ravel(), y, scale, dy.ravel(),
    )  # fmt: skip
    return dw.reshape(w.shape), db, jnp.zeros_like(image)


convolved.defvjp(_convolve_forward, _convolve_backward)
