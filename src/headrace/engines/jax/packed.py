"""Modules of several layers as one array each, for fleets whose steps are bound by the number of kernels.

Whatever is done to all parameters alike (traces, updates, norms) is then one kernel a module instead of one a layer.
Only the networks look into a module: there it is taken apart again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent, module_shapes
from headrace.definition.networks import Layer, Layout, encode, unroll
from headrace.definition.trees import Tree
from headrace.part import Part, is_foreign

Shapes = tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]  # of each layer's arrays, in the order of their names


@dataclass(frozen=True)
class Packed:
    """A network whose encoder, and whose dynamics, is one array."""

    network: Any
    encoder: Shapes
    dynamics: Shapes


def packed_where_known(agent: Agent, layout: Layout) -> Any:
    """The layout's network for packed modules; as it is where a part of another package might look into them."""
    if any(is_foreign(type(part)) for part in _parts(agent)):
        return layout.network
    shapes = module_shapes(agent, layout.observation_shape, layout.n_actions, layout.box)
    return Packed(layout.network, *(_shapes(shapes.get(name, ())) for name in ("encoder", "dynamics")))


def _parts(part: Any) -> list[Part]:
    inner = [getattr(part, field.name) for field in fields(part)] if isinstance(part, Part) else []
    return [part, *(found for x in inner if isinstance(x, Part) for found in _parts(x))]


def _shapes(layers: Any) -> Shapes:
    return tuple(tuple(sorted((name, tuple(shape)) for name, shape in layer.items())) for layer in layers)


@encode.register
def _(network: Packed, layers: list[Layer], obs: jax.Array) -> jax.Array:
    return encode(network.network, _layers(network.encoder, layers), obs)


@unroll.register
def _(network: Packed, layers: list[Layer], z: jax.Array, actions: jax.Array) -> jax.Array:
    return unroll(network.network, _layers(network.dynamics, layers), z, actions)


def _layers(shapes: Shapes, packed: list[Layer]) -> list[Layer]:
    if len(shapes) == 1:
        return packed
    sizes = [prod(shape) for layer in shapes for _, shape in layer]
    parts = iter(jnp.split(packed[0]["w"], np.cumsum(sizes)[:-1]))
    return [{name: next(parts).reshape(shape) for name, shape in layer} for layer in shapes]


def pack(state: Tree) -> Tree:
    """The state of many streams, a row each, with every module as one array."""

    def one(module: Any) -> Any:
        if not isinstance(module, list) or len(module) < 2:
            return module
        leaves = jax.tree.leaves(module)
        return [{"w": jnp.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)}]

    return jax.tree.map(one, state, is_leaf=lambda x: isinstance(x, list))


def unpack(like: Tree, state: Tree) -> Tree:
    """The packed state of one stream, on the host, as what it was: `like` has its structure and shapes."""

    def one(module: Any, found: Any) -> Any:
        if not isinstance(module, list) or len(module) < 2:
            return found
        leaves, structure = jax.tree.flatten(module)
        parts = np.split(found[0]["w"], np.cumsum([prod(x.shape) for x in leaves])[:-1])
        return jax.tree.unflatten(structure, [part.reshape(x.shape) for part, x in zip(parts, leaves, strict=True)])

    return jax.tree.map(one, like, state, is_leaf=lambda x: isinstance(x, list))
