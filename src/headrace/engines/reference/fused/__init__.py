"""The layers of a small network as one kernel each, for fleets on an NVIDIA card.

A fleet of MinAtar streams is bound by the number of kernels that a step starts: as products, reductions and passes over
elements, a convolution with LayerNorm and LeakyReLU is five of them, over ten with its gradient, and SPR unrolls ten
such layers. Here one program of the card keeps one stream's image in its registers: `convolved` is a layer, `unrolled`
the dynamics along a whole window. Where streams are many, it is bound by bytes instead: `many`. Sums have a fixed order
and nothing is added atomically, so results are the same at every run.

All images are flat inside: element (row, column, channel) is at (row * columns + column) * channels + channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from headrace.agents import Conv
from headrace.agents.network import latent_shape
from headrace.engines.reference.fused.dense import ONE, rows_times, vector_times
from headrace.engines.reference.fused.dynamics import biases, unroll_back, unroll_forward, unrolled
from headrace.engines.reference.fused.halves import Kept, dynamics_gradient, encoded, encoder_gradient, imagined
from headrace.engines.reference.fused.layer import convolve_backward, convolve_forward, convolved
from headrace.engines.reference.fused.many import MANY, ForMany
from headrace.engines.reference.fused.programs import power
from headrace.engines.reference.fused.together import found_together
from headrace.engines.reference.networks import Latent, Layer, dense_in, encode, unroll

__all__ = [
    "ForMany",
    "Fused",
    "convolved",
    "found_together",
    "fused_where_it_fits",
    "rows_times",
    "unrolled",
    "vector_times",
]


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


@encoded.register
def _(network: Fused, layers: list[Layer], obs: jax.Array, after: Sequence[jax.Array] = ()) -> tuple[jax.Array, Kept]:
    z, (_, _, scale, _) = convolve_forward(layers[0]["w"], layers[0]["b"], obs, after)
    return z, (scale,)


@encoder_gradient.register
def _(
    network: Fused, layers: list[Layer], obs: jax.Array, latent: Latent, dz: jax.Array, after: Sequence[jax.Array] = ()
) -> list[Layer]:
    dw, db, _ = convolve_backward((obs, latent.z.ravel(), *latent.kept, layers[0]["w"]), dz, after)
    return [{"w": dw, "b": db}]


@imagined.register
def _(network: Fused, layers: list[Layer], z: jax.Array, actions: jax.Array) -> tuple[jax.Array, Kept]:
    (w1, b1), (w2, b2) = ((layer["w"], layer["b"]) for layer in layers)
    latents, (_, _, _, _, *kept) = unroll_forward(z, w1, biases(b1, w1, actions), w2, b2)
    return latents, tuple(kept)


@dynamics_gradient.register
def _(
    network: Fused, layers: list[Layer], z: jax.Array, actions: jax.Array, latents: jax.Array, kept: Kept, d: jax.Array
) -> tuple[jax.Array, Callable[..., list[Layer]]]:
    (w1, b1), w2 = (layers[0]["w"], layers[0]["b"]), layers[1]["w"]
    dz, weights = unroll_back((w1, w2, z, latents.ravel(), *kept), d)

    def of_layers(*after: jax.Array) -> list[Layer]:
        dw1, d_biases, dw2, db2 = weights(*after)
        db1, through_actions = jax.vjp(lambda b, w: biases(b, w, actions), b1, w1)[1](d_biases)
        return [{"w": dw1 + through_actions, "b": db1}, {"w": dw2, "b": db2}]

    return dz, of_layers


def fused_where_it_fits(network: Any, observation_shape: tuple[int, ...], streams: int) -> Any:
    """The network as kernels, where it is one 3x3 layer whose latent one program can hold; else as it is."""
    if not isinstance(network, Conv) or (network.kernels, network.strides) != (((3, 3),), ((1, 1),)):
        return network
    rows, columns, channels = latent_shape(network, observation_shape)
    sides = rows * columns, channels
    powers = all(n >= 16 and n == power(n) for n in sides)  # what a product's sides may be
    small = rows * columns <= 64 and channels <= 16 and observation_shape[2] <= 16 and min(rows, columns) >= 4
    whole = rows * columns * channels % ONE.inputs == 0 and network.hidden % ONE.outputs == 0
    if not (powers and small and whole):
        return network
    tiles = network.hidden == power(network.hidden)  # a tile of a pass is as wide as the layer
    many = streams >= MANY and tiles and network.head == Conv().head
    return ForMany(Fused(network)) if many else Fused(network)
