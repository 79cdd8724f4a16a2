"""A bias, LayerNorm and LeakyReLU as one kernel, and their gradient as another: what follows a product in each layer of
a network that is too large for one kernel a layer."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas import triton as plt

from headrace.agents import Conv
from headrace.definition.networks import Layer, encode, imagine, patches, product
from headrace.engines.jax.kernels.programs import activate, activation_gradient, call, count, load, power

LARGEST = 2**14  # numbers of an image that the registers of one program hold
WARP = 1024  # numbers to a warp, at least


@dataclass(frozen=True)
class Normed:
    """A convolutional network whose activations are kernels of their own."""

    network: Conv


@encode.register
def _(network: Normed, layers: list[Layer], obs: jax.Array) -> jax.Array:
    z = obs
    for layer, stride in zip(layers, network.network.strides, strict=True):
        z = _layer(layer, z, (stride[0], stride[1]))
    return z


@imagine.register
def _(network: Normed, layers: list[Layer], z: jax.Array, action: jax.Array) -> jax.Array:
    planes = jnp.broadcast_to(action, (*z.shape[:2], action.shape[0]))
    z = jnp.concatenate([z, planes], axis=-1)
    for layer in layers:
        z = _layer(layer, jnp.pad(z, ((1, 1), (1, 1), (0, 0)), mode="reflect"), (1, 1))
    return z


def _layer(layer: Layer, x: jax.Array, stride: tuple[int, int]) -> jax.Array:
    w = layer["w"]
    return normed(product(patches(x, (w.shape[0], w.shape[1]), stride), w.reshape(-1, w.shape[-1])), layer["b"])


def normed_where_it_fits(network: Conv, observation_shape: tuple[int, ...]) -> Any:
    """The network with such activations, where every image has room in one program; else as it is."""
    rows, columns, _ = observation_shape
    for channels, (kh, kw), (sh, sw) in zip(network.channels, network.kernels, network.strides, strict=True):
        rows, columns = (rows - kh) // sh + 1, (columns - kw) // sw + 1
        if channels != power(channels) or power(rows * columns) * channels > LARGEST:
            return network
    return Normed(network)


@jax.custom_vjp
def normed(x: jax.Array, b: jax.Array) -> jax.Array:
    """LeakyReLU(LayerNorm(x + b)) of an image (rows, columns, channels)."""
    return _forward(x, b)[0]


def _forward(x: jax.Array, b: jax.Array) -> tuple[jax.Array, Any]:
    rooms, (positions, channels) = _rooms(x.shape), (x.size // x.shape[-1], x.shape[-1])
    y, scale = call(
        functools.partial(_kernel, positions, rooms), [(x.size,), (1,)], x.ravel(), b, warps=_warps(rooms, channels)
    )
    return y.reshape(x.shape), (y, scale)


def _backward(kept: Any, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    (y, scale), rooms, channels = kept, _rooms(dy.shape), dy.shape[-1]
    dx, db = call(
        functools.partial(_gradient_kernel, dy.size // channels, rooms), [(dy.size,), (channels,)], y, scale,
        dy.ravel(), warps=_warps(rooms, channels),
    )  # fmt: skip
    return dx.reshape(dy.shape), db


normed.defvjp(_forward, _backward)


def _rooms(shape: tuple[int, ...]) -> int:
    """Positions up to a power of two: what the sides of an array in a program are."""
    rows, columns, _ = shape
    return power(rows * columns)


def _warps(rooms: int, channels: int) -> int:
    return min(16, max(4, rooms * channels // WARP))


def _places(positions: int, rooms: int, channels: int) -> tuple[jax.Array, jax.Array]:
    """Where the numbers of an image lie, and which of the room is not used."""
    place = count(rooms, 0) * channels + count(channels, 1)
    return place, place < positions * channels


def _kernel(positions: int, rooms: int, x: Any, b: Any, y: Any, scale: Any) -> None:
    place, real = _places(positions, rooms, b.shape[0])
    activated, scale[0] = activate(load(x, place, real) + b[...][None, :], real)
    plt.store(y.at[place], activated, mask=real)


def _gradient_kernel(positions: int, rooms: int, y: Any, scale: Any, dy: Any, dx: Any, db: Any) -> None:
    place, real = _places(positions, rooms, db.shape[0])
    d = activation_gradient(load(y, place, real), scale[0], load(dy, place, real), real)
    plt.store(dx.at[place], d, mask=real)
    db[...] = jnp.sum(d, axis=0)
