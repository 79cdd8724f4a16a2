"""Encoder and dynamics in two halves: forwards at one time, back at another, with what was kept in between.

Where a network says nothing else, nothing is kept, and what is needed is computed once more on the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import jax

from headrace.engines.reference.networks import Latent, Layer, encode, unroll

Kept = tuple[jax.Array, ...]


@singledispatch
def encoded(
    network: Any, layers: list[Layer], obs: jax.Array, after: Sequence[jax.Array] = ()
) -> tuple[jax.Array, Kept]:
    """The latent of an observation, made once all in `after` is there, if the network cares when."""
    return encode(network, layers, obs), ()


@singledispatch
def encoder_gradient(
    network: Any, layers: list[Layer], obs: jax.Array, latent: Latent, dz: jax.Array, after: Sequence[jax.Array] = ()
) -> list[Layer]:
    """Of the layers, made once all in `after` is there, if the network cares when."""
    return jax.vjp(lambda layers: encode(network, layers, obs), layers)[1](dz)[0]


@singledispatch
def imagined(network: Any, layers: list[Layer], z: jax.Array, actions: jax.Array) -> tuple[jax.Array, Kept]:
    """The latents that follow z under each action of the row in turn, one-hot."""
    return unroll(network, layers, z, actions), ()


@singledispatch
def dynamics_gradient(
    network: Any, layers: list[Layer], z: jax.Array, actions: jax.Array, latents: jax.Array, kept: Kept, d: jax.Array
) -> tuple[jax.Array, Callable[..., list[Layer]]]:
    """Of z, and a function that gives that of the layers, made once all it is given is there."""
    d_layers, dz = jax.vjp(lambda layers, z: unroll(network, layers, z, actions), layers, z)[1](d)
    return dz, lambda *after: d_layers
