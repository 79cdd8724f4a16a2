"""The layers of a small network as one kernel each, for fleets on an NVIDIA card.

A fleet of MinAtar streams is bound by the number of kernels that a step starts: as products, reductions and passes over
elements, a convolution with LayerNorm and LeakyReLU is five of them, over ten with its gradient, and SPR unrolls ten
such layers. Here one program of the card keeps one stream's image in its registers: `convolved` is a layer, `unrolled`
the dynamics along a whole window. Sums have a fixed order and nothing is added atomically, so results are the same at
every run.

All images are flat inside: element (row, column, channel) is at (row * columns + column) * channels + channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from headrace.agents import Conv
from headrace.definition.networks import Layer, dense_in, encode, unroll
from headrace.engines.jax.kernels.dense import ONE, rows_times, vector_times
from headrace.engines.jax.kernels.dynamics import unrolled
from headrace.engines.jax.kernels.layer import convolved
from headrace.engines.jax.kernels.normed import Normed, normed, normed_where_it_fits
from headrace.engines.jax.kernels.programs import power

__all__ = ["Fused", "Normed", "convolved", "fused_where_it_fits", "normed", "rows_times", "unrolled", "vector_times"]


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
    """The network as kernels: a whole layer each, where it is one 3x3 layer whose latent one program can hold; else its
    activations, where one program can hold them; else as it is."""
    if not isinstance(network, Conv):
        return network
    if (network.kernels, network.strides) != (((3, 3),), ((1, 1),)):
        return normed_where_it_fits(network, observation_shape)
    rows, columns, channels = network.latent_shape(observation_shape)
    sides = rows * columns, channels
    powers = all(n >= 16 and n == power(n) for n in sides)  # what a product's sides may be
    small = rows * columns <= 64 and channels <= 16 and observation_shape[2] <= 16 and min(rows, columns) >= 4
    whole = rows * columns * channels % ONE.inputs == 0 and network.hidden % ONE.outputs == 0
    return Fused(network) if powers and small and whole else normed_where_it_fits(network, observation_shape)
