"""The shape of a network for an observation: which layers there are and how large, without any arithmetic."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import prod

from headrace.errors import BadSetting
from headrace.part import Part, added, shape


@dataclass(frozen=True)
class LeakyNorm(Part):
    """LayerNorm, then LeakyReLU, as behind every other layer."""


@dataclass(frozen=True)
class Relu(Part):
    """ReLU alone, as behind the projection of the released code's SPR agents."""


@dataclass(frozen=True)
class Conv(Part):
    """Convolutions (VALID), then one dense layer."""

    channels: tuple[int, ...] = shape((16,))
    kernels: tuple[tuple[int, int], ...] = shape(((3, 3),))
    strides: tuple[tuple[int, int], ...] = shape(((1, 1),))
    hidden: int = shape(128)
    head: LeakyNorm | Relu = added(LeakyNorm())  # between the projection and the layer that gives the values

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.channels) == len(self.kernels) == len(self.strides):
            raise BadSetting(f"Conv needs as many kernels and strides as channels, got {self!r}")
        pairs = [*self.kernels, *self.strides]
        if not all(isinstance(c, int) for c in self.channels) or not all(_is_pair(p) for p in pairs):
            raise BadSetting(
                "Conv takes channels as whole numbers, kernels and strides as pairs, e.g. "
                f"Conv((16,), ((3, 3),), ((1, 1),), 128); got {self!r}"
            )


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, int) for n in value)


@dataclass(frozen=True)
class Mlp(Part):
    """Dense layers for vector observations, then one dense layer as for images."""

    widths: tuple[int, ...] = shape((128,))
    hidden: int = shape(128)
    head: LeakyNorm | Relu = added(LeakyNorm())  # between the projection and the layer that gives the values

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(isinstance(width, int) for width in self.widths):
            raise BadSetting(f"Mlp takes widths as whole numbers, e.g. Mlp((128, 128), 128); got {self!r}")


@dataclass(frozen=True)
class BySuite(Part):
    """The paper's network for the suite that the observation's shape belongs to; an Mlp for vectors."""

    third_kernel: int = shape(3)  # 3 gives the paper's parameter counts; its table prints 2
    head: LeakyNorm | Relu = added(LeakyNorm())  # between the projection and the layer that gives the values


def _large(first_kernel: tuple[int, int], first_stride: tuple[int, int], third: int) -> Conv:
    return Conv((32, 64, 64), (first_kernel, (4, 4), (third, third)), (first_stride, (2, 2), (1, 1)), 512)


def fit(network: BySuite | Conv | Mlp, observation_shape: tuple[int, ...]) -> Conv | Mlp:
    """The network's concrete shape for this observation; an error where they do not go together."""
    fitted = _by_suite(network, observation_shape) if isinstance(network, BySuite) else network
    fitted = replace(fitted, head=network.head)
    wanted = 1 if isinstance(fitted, Mlp) else 3
    if len(observation_shape) != wanted:
        raise BadSetting(f"{fitted!r} needs an observation of {wanted} axes, got shape {observation_shape}")
    latent_shape(fitted, observation_shape)
    return fitted


def _by_suite(network: BySuite, observation_shape: tuple[int, ...]) -> Conv | Mlp:
    if len(observation_shape) == 1:
        return Mlp()
    if observation_shape[:2] == (32, 64):
        return _large((4, 8), (2, 4), network.third_kernel)
    if max(observation_shape[:2], default=0) <= 16:
        return Conv()
    return _large((8, 8), (4, 4), network.third_kernel)


def latent_shape(network: Conv | Mlp, observation_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the encoder's output z."""
    if isinstance(network, Mlp):
        return (network.widths[-1],)
    height, width = observation_shape[:2]
    for (kh, kw), (sh, sw) in zip(network.kernels, network.strides, strict=True):
        height, width = (height - kh) // sh + 1, (width - kw) // sw + 1
        if height < 1 or width < 1:
            raise BadSetting(
                f"an image of {observation_shape[0]} x {observation_shape[1]} is too small for {network!r}: "
                "set network=Conv(channels, kernels, strides, hidden) with smaller kernels or strides"
            )
    return height, width, network.channels[-1]


Layer = dict[str, tuple[int, ...]]  # the shapes of a layer's arrays: w and, where it has one, b


def _dense(inputs: int, outputs: int) -> Layer:
    return {"w": (inputs, outputs), "b": (outputs,)}


def _conv(kernel: tuple[int, int], inputs: int, outputs: int) -> Layer:
    return {"w": (*kernel, inputs, outputs), "b": (outputs,)}


def q_shapes(network: Conv | Mlp, observation_shape: tuple[int, ...], n_actions: int) -> dict[str, list[Layer]]:
    """Modules of a value network (Q, and QRC's h): encoder, projection, head."""
    latent = prod(latent_shape(network, observation_shape))
    if isinstance(network, Mlp):
        sizes = (observation_shape[0], *network.widths)
        encoder = [_dense(i, o) for i, o in itertools.pairwise(sizes)]
    else:
        depths = (observation_shape[2], *network.channels)
        pairs = itertools.pairwise(depths)
        encoder = [_conv((k[0], k[1]), i, o) for k, (i, o) in zip(network.kernels, pairs, strict=True)]
    return {
        "encoder": encoder,
        "projection": [_dense(latent, network.hidden)],
        "head": [{"w": (network.hidden, n_actions)}],
    }


def dynamics_shapes(network: Conv | Mlp, n_actions: int) -> list[Layer]:
    """The two layers of the latent dynamics, the one-hot action joined to the first one's input."""
    if isinstance(network, Mlp):
        size = network.widths[-1]
        return [_dense(size + n_actions, size), _dense(size, size)]
    size = network.channels[-1]
    return [_conv((3, 3), size + n_actions, size), _conv((3, 3), size, size)]


def dense_shapes(inputs: int, outputs: int) -> list[Layer]:
    return [_dense(inputs, outputs)]


def count(modules: dict[str, list[Layer]]) -> int:
    """Number of parameters."""
    return sum(prod(s) for layers in modules.values() for layer in layers for s in layer.values())
