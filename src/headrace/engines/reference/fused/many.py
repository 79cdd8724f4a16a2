"""What many streams ask of a network: that its large matrices are gone through as few times as can be.

The weights of the projection, its traces and its history are most of what a stream has. With 45 streams the compiler
makes one pass of all that a step does to them. With 255 it writes gradients and updates to memory between several
passes. Here they are formulas until all is known (`later`), and the gradient of a projection's weights is never more
than its factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from headrace.engines.reference.fused.dense import no_taps, tapped_times
from headrace.engines.reference.fused.halves import encoded
from headrace.engines.reference.fused.passes import ROWS, passed
from headrace.engines.reference.fused.programs import power
from headrace.engines.reference.later import Later, OuterSum, Pending, Whole, now
from headrace.engines.reference.networks import (
    Latent,
    Layer,
    Modules,
    apart,
    deferred,
    dense_in,
    either,
    encode,
    seen_ahead,
    steps_a_turn,
    unroll,
    value_and_gradient,
)
from headrace.engines.reference.trees import Tree, choose

MANY = 128  # streams from which on this pays (decision 0025)
LARGE = 2**16  # elements of a matrix that is worth it
TURN = 2  # steps after which traces and history are written
PROJECTIONS = ("projection", "aux_projection")


@dataclass(frozen=True)
class ForMany:
    """A network whose large matrices are formulas while it learns."""

    network: Any


@encode.register
def _(network: ForMany, layers: list[Layer], obs: jax.Array) -> jax.Array:
    return encode(network.network, layers, obs)


@unroll.register
def _(network: ForMany, layers: list[Layer], z: jax.Array, actions: jax.Array) -> jax.Array:
    return unroll(network.network, layers, z, actions)


@dense_in.register
def _(network: ForMany, layer: Layer, x: jax.Array) -> jax.Array:
    if "taps" not in layer:
        return dense_in(network.network, {**layer, "w": now(layer["w"])}, x)
    rows = x if x.ndim == 2 else x[None, :]
    y = tapped_times(rows, layer["w"], layer["taps"])
    return (y if x.ndim == 2 else y[0]) + layer["b"]


@deferred.register
def _(network: ForMany, state: Tree) -> Tree:
    return jax.tree.map(_as_formula, state, is_leaf=lambda x: isinstance(x, Pending))


def _as_formula(x: Any) -> Any:
    if isinstance(x, Pending):
        return x.formula
    return Whole(x, passed) if _is_large(x) else x


@steps_a_turn.register
def _(network: ForMany) -> int:
    return TURN


def _is_large(x: jax.Array) -> bool:
    if jnp.ndim(x) != 2 or jnp.size(x) < LARGE:
        return False
    return x.shape[0] % ROWS == 0 and x.shape[1] == power(x.shape[1])


@seen_ahead.register
def _(network: ForMany, params: Modules, obs: jax.Array) -> dict[str, tuple[Latent, Any]]:
    encoders = {"projection": "encoder", "h_projection": "h_encoder"}
    late = [name for name in encoders if name in params and isinstance(params[name][0]["w"], Later)]
    net = network.network
    return {name: (Latent(*encoded(net, params[encoders[name]], obs)), params[name][0]["w"]) for name in late}


@apart.register
def _(network: ForMany, x: Tree) -> Tree:
    """The compiler would have the environments wait for what is only to be reported, to save a kernel."""
    return jax.lax.optimization_barrier(x)


@either.register
def _(
    network: ForMany, condition: jax.Array, one: Callable[[Tree], Tree], other: Callable[[Tree], Tree], x: Tree
) -> Tree:
    return choose(condition, one(x), other(x))


@value_and_gradient.register
def _(network: ForMany, f: Callable[[Modules], jax.Array], modules: Modules, rows: int) -> tuple[jax.Array, Modules]:
    """The gradient of a projection's weights is left as its factors."""
    weights = {name: now(modules[name][0]["w"]) for name in PROJECTIONS if name in modules}
    tapped = {name: [{"b": modules[name][0]["b"], "taps": no_taps(w, rows)}] for name, w in weights.items()}

    def of_taps(modules: Modules) -> jax.Array:
        return f({**modules, **{name: [{**modules[name][0], "w": w}] for name, w in weights.items()}})

    value, gradient = jax.value_and_grad(of_taps)(jax.tree.map(now, {**modules, **tapped}))
    return value, {**gradient, **{name: [_factored(gradient[name][0])] for name in weights}}


def _factored(layer: Any) -> Any:
    return {"w": OuterSum(layer["taps"].x, layer["taps"].d, passed), "b": layer["b"]}
