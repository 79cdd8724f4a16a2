"""A 3x3 convolution with its LayerNorm and LeakyReLU as one kernel, and its gradient as another."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas import triton as plt

from headrace.engines.jax.kernels.programs import (
    TAPS,
    activate,
    activation_gradient,
    call,
    count,
    dot,
    load,
    power,
    tile_of,
    total_of,
)


class Taps(NamedTuple):
    """Some of a kernel's nine taps, side by side."""

    first: int
    n: int

    def along(self, width: int, axis: int) -> tuple[jax.Array, jax.Array]:
        """Tap and channel of each entry along an axis."""
        i = count(self.n * width, axis)
        return self.first + i // width, i % width


EACH = tuple(Taps(tap, 1) for tap in range(TAPS))
ALL = Taps(0, 8), Taps(8, 1)  # a product's sides must be powers of two


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

    def at(self, taps: Taps, axis: int) -> jax.Array:
        """What each position reads at some taps: (taps x channels, positions) for axis 0, its transpose for axis 1."""
        tap, channel = taps.along(self.width, axis)
        position = count(self.positions, 1 - axis)
        start = (position // self.columns * self.stride + position % self.columns) * self.channels
        return start + ((tap // 3 * self.stride + tap % 3) * self.channels + channel)

    def weights(self, taps: Taps, outputs: int) -> jax.Array:
        """Where the (taps x channels, outputs) weights lie."""
        tap, channel = taps.along(self.width, 0)
        return (tap * self.channels + channel) * outputs + count(outputs, 1)

    def real(self, taps: Taps, other: int, axis: int) -> jax.Array | None:
        """Which entries there are of a matrix with taps and channels along that axis, `other` along the other."""
        if self.width == self.channels:
            return None
        tall = taps.n * self.width
        channel = taps.along(self.width, axis)[1]
        return jnp.broadcast_to(channel < self.channels, (tall, other) if axis == 0 else (other, tall))


def _convolve_kernel(shape: Windows, x: Any, w: Any, b: Any, y: Any, scale: Any) -> None:
    """One tap at a time: a product keeps all that it adds up in registers, and eight taps are too much for them."""
    outputs = b.shape[0]
    total = total_of(
        dot(
            load(x, shape.at(tap, 1), shape.real(tap, shape.positions, 1)),
            load(w, shape.weights(tap, outputs), shape.real(tap, outputs, 0)),
        )
        for tap in EACH
    )
    activated, s = activate(total + b[...][None, :])
    plt.store(y.at[tile_of(shape.positions, outputs)], activated)
    scale[0] = s


def _convolve_gradient_kernel(shape: Windows, x: Any, y: Any, scale: Any, dy: Any, dw: Any, db: Any) -> None:
    outputs = db.shape[0]
    tile = tile_of(shape.positions, outputs)
    d = activation_gradient(load(y, tile), scale[0], load(dy, tile))
    for taps in ALL:
        gradient = dot(load(x, shape.at(taps, 0), shape.real(taps, shape.positions, 0)), d)
        plt.store(dw.at[shape.weights(taps, outputs)], gradient, mask=shape.real(taps, outputs, 0))
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
    )  # fmt: skip
    return y.reshape(shape.rows, shape.columns, outputs), (image, y, scale, w)


def _convolve_backward(kept: Any, dy: jax.Array) -> Any:
    image, y, scale, w = kept
    dw, db = call(
        functools.partial(_convolve_gradient_kernel, _windows_of(image.shape)),
        [(w.size,), (w.shape[-1],)], image.ravel(), y, scale, dy.ravel()
    )  # fmt: skip
    return dw.reshape(w.shape), db, jnp.zeros_like(image)


convolved.defvjp(_convolve_forward, _convolve_backward)
