"""The networks: one observation in, one answer out, no batch axis. The paper's appendix "Architecture design"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Agent, Conv, Head, LeakyNorm, Mlp, Network, Relu, fit, module_shapes, require_actions
from headrace.envs.base import EnvSpec, one_frame

Layer = dict[str, jax.Array]
Modules = dict[str, list[Layer]]

LAYER_NORM_EPS = 1e-5
NEGATIVE_SLOPE = 0.01


@dataclass(frozen=True)
class Layout:
    """The network of an agent in an environment: fixed for the life of a compiled program.

    Streams of different environments share a program by having room for the largest: of `n_actions` outputs only the
    first `actions` stand for actions, a number that may be traced. Room that is not used stays exactly zero.
    In a `box` an action is as many real numbers instead.
    """

    network: Network
    observation_shape: tuple[int, ...]
    n_actions: int
    actions: Any
    frames: int = 1  # that an observation is stacked of
    head: Head = LeakyNorm()  # between the projection and the layer that gives the values
    box: bool = False

    @property
    def frame_shape(self) -> tuple[int, ...]:
        return one_frame(self.observation_shape, self.frames)


jax.tree_util.register_dataclass(
    Layout, data_fields=["actions"], meta_fields=["network", "observation_shape", "n_actions", "frames", "head", "box"]
)


def layout_of(
    agent: Agent, observation_shape: tuple[int, ...], n_actions: int, frames: int = 1, box: bool = False
) -> Layout:
    require_actions(agent, box)
    network = fit(agent.network, observation_shape)
    return Layout(network, observation_shape, n_actions, n_actions, frames, network.head, box)


def layout_in(agent: Agent, spec: EnvSpec) -> Layout:
    """The layout of an agent in an environment."""
    return layout_of(agent, spec.observation_shape, spec.n_actions, spec.frames, spec.box)


def init_params(agent: Agent, layout: Layout, key: jax.Array) -> Modules:
    """All parameters of the agent, sparsely initialised from two long draws: few random calls compile quickly."""
    shapes = module_shapes(agent, layout.observation_shape, layout.n_actions, layout.box)
    total = sum(prod(layer["w"]) for layers in shapes.values() for layer in layers)
    key_values, key_order = jax.random.split(key)
    values, order = jax.random.uniform(key_values, (total,)), jax.random.uniform(key_order, (total,))
    params: Modules = {}
    start = 0
    for module, layers in shapes.items():
        params[module] = []
        for layer in layers:
            part = slice(start, start := start + prod(layer["w"]))
            arrays = {"w": sparse(values[part], order[part], layer["w"])}
            biases = {"b": jnp.zeros(layer["b"], jnp.float32)} if "b" in layer else {}
            params[module].append({**arrays, **biases})
    return params


def sparse(values: jax.Array, order: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)); for each output unit ceil(0.9 fan_in) inputs, chosen at random, are zero.

    One input is always left: a unit with fewer than ten would otherwise see nothing. `values` and `order` are uniform
    in [0, 1): the weights, and which of a unit's inputs come first.
    """
    fan_in, outputs = prod(shape[:-1]), shape[-1]
    weights = (2 * values.reshape(fan_in, outputs) - 1) * fan_in**-0.5
    n_zero = min(-(-9 * fan_in // 10), fan_in - 1)
    # Sorting random numbers permutes 0 .. fan_in - 1 at random, and exactly so where two of them are equal.
    place = jnp.argsort(order.reshape(fan_in, outputs), axis=0)
    return jnp.where(place < n_zero, 0, weights).reshape(shape)


def layer_norm(x: jax.Array) -> jax.Array:
    """Zero mean and unit variance over all features of the sample jointly; nothing is learnt."""
    centred = x - jnp.mean(x)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred) + LAYER_NORM_EPS)


def activate(x: jax.Array) -> jax.Array:
    x = layer_norm(x)
    return jnp.where(x >= 0, x, NEGATIVE_SLOPE * x)


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """In float32 everywhere: accelerators would round the factors to fewer digits unless told not to."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def dense(layer: Layer, x: jax.Array) -> jax.Array:
    y = product(x, layer["w"])
    return y + layer["b"] if "b" in layer else y


@singledispatch
def dense_in(network: Any, layer: Layer, x: jax.Array) -> jax.Array:
    """A dense layer as the network computes it."""
    return dense(layer, x)


def patches(x: jax.Array, kernel: tuple[int, int], stride: tuple[int, int]) -> jax.Array:
    """Every window of the image as one row: (rows, columns, kh * kw * channels), in the order of a kernel's weights."""
    (kh, kw), (sh, sw) = kernel, stride
    rows, columns = (x.shape[0] - kh) // sh + 1, (x.shape[1] - kw) // sw + 1
    shifted = [
        x[i : i + sh * (rows - 1) + 1 : sh, j : j + sw * (columns - 1) + 1 : sw] for i in range(kh) for j in range(kw)
    ]
    return jnp.concatenate(shifted, axis=-1)


def convolve(layer: Layer, x: jax.Array, stride: tuple[int, int]) -> jax.Array:
    """A VALID convolution as a matrix product: with weights of its own for every stream, a fleet batches products."""
    w = layer["w"]
    return product(patches(x, (w.shape[0], w.shape[1]), stride), w.reshape(-1, w.shape[-1])) + layer["b"]


@singledispatch
def encode(network: Any, layers: list[Layer], obs: jax.Array) -> jax.Array:
    """The latent z of an observation."""
    raise TypeError(f"no encoder for {network!r}")


@encode.register
def _(network: Conv, layers: list[Layer], obs: jax.Array) -> jax.Array:
    z = obs
    for layer, stride in zip(layers, network.strides, strict=True):
        z = activate(convolve(layer, z, (stride[0], stride[1])))
    return z


@encode.register
def _(network: Mlp, layers: list[Layer], obs: jax.Array) -> jax.Array:
    return through(layers, obs)


def through(layers: list[Layer], x: jax.Array) -> jax.Array:
    """Dense layers one after the other, each activated."""
    for layer in layers:
        x = activate(dense(layer, x))
    return x


@singledispatch
def imagine(network: Any, layers: list[Layer], z: jax.Array, action: jax.Array) -> jax.Array:
    """The latent that follows `z` under the action, according to the dynamics D."""
    raise TypeError(f"no dynamics for {network!r}")


@imagine.register
def _(network: Conv, layers: list[Layer], z: jax.Array, action: jax.Array) -> jax.Array:
    planes = jnp.broadcast_to(action, (*z.shape[:2], action.shape[0]))
    z = jnp.concatenate([z, planes], axis=-1)
    for layer in layers:
        z = activate(convolve(layer, jnp.pad(z, ((1, 1), (1, 1), (0, 0)), mode="reflect"), (1, 1)))
    return z


@imagine.register
def _(network: Mlp, layers: list[Layer], z: jax.Array, action: jax.Array) -> jax.Array:
    return through(layers, jnp.concatenate([z, action]))


@singledispatch
def unroll(network: Any, layers: list[Layer], z: jax.Array, actions: jax.Array) -> jax.Array:
    """The latents that follow `z` under each action of the row in turn."""
    imagined = []
    for action in actions:
        z = imagine(network, layers, z, action)
        imagined.append(z)
    return jnp.stack(imagined)


class ByAction(NamedTuple):
    """A number for each action; where there is no such action it is 0 and not valid."""

    q: jax.Array
    valid: jax.Array


def by_action(layout: Layout, q: jax.Array) -> ByAction:
    valid = jnp.arange(layout.n_actions) < layout.actions
    return ByAction(jnp.where(valid, q, 0), valid)


def q_values(layout: Layout, modules: Modules, obs: jax.Array) -> jax.Array:
    """Q(s, .): the encoder, the projection, the head with what precedes it; -inf where there is no action."""
    return q_of(layout, modules["head"][0], projected(layout, modules, obs))


def projected(layout: Layout, modules: Modules, obs: jax.Array) -> jax.Array:
    """What the projection makes of the latent."""
    z = encode(layout.network, modules["encoder"], obs).reshape(-1)
    return dense_in(layout.network, modules["projection"][0], z)


def outputs(layout: Layout, modules: Modules, obs: jax.Array) -> list[jax.Array]:
    """What each layer of the head gives: V(s) of a critic; preferences, or means and scales, of an actor."""
    hidden = headed(layout.head, projected(layout, modules, obs))
    return [dense(layer, hidden) for layer in modules["head"]]


def action_vectors(layout: Layout, actions: jax.Array) -> jax.Array:
    """Actions as the dynamics take them: one-hot, or the numbers that act, which are those within the box."""
    return jnp.clip(actions, -1, 1) if layout.box else jax.nn.one_hot(actions, layout.n_actions)


def q_of(layout: Layout, head: Layer, projected: jax.Array) -> jax.Array:
    """Q(s, .) of what the projection made of s."""
    q = dense(head, headed(layout.head, projected))
    return jnp.where(jnp.arange(layout.n_actions) < layout.actions, q, -jnp.inf)


@singledispatch
def headed(head: Any, projected: jax.Array) -> jax.Array:
    """What the layer that gives the values is given of the projection's result."""
    raise TypeError(f"no head {head!r}")


@headed.register
def _(head: LeakyNorm, projected: jax.Array) -> jax.Array:
    return activate(projected)


@headed.register
def _(head: Relu, projected: jax.Array) -> jax.Array:
    return jax.nn.relu(projected)  # with slope 0 at exactly zero, where jnp.maximum has 1/2
