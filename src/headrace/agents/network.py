"""The shape of a network for an observation: which layers there are and how large, without any arithmetic."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.errors import BadSetting
from headrace.part import Part, added, shape

Layer = dict[str, tuple[int, ...]]  # the shapes of a layer's arrays: w and, where it has one, b
Shapes = dict[str, list[Layer]]  # by module


class Head(Part, slot=True):
    """What stands between the projection and the layer that gives the values."""


@dataclass(frozen=True)
class LeakyNorm(Head):
    """LayerNorm, then LeakyReLU, as after each layer of the encoder."""


@dataclass(frozen=True)
class Relu(Head):
    """ReLU alone, as behind the projection of the released code's SPR agents."""


class Network(Part, slot=True):
    """An encoder, a dense layer of `hidden` units (the projection), and the layer that gives the values."""

    axes: ClassVar[int] = 3  # of the observations that it takes
    head: Any = LeakyNorm()
    if TYPE_CHECKING:  # a field of that name in every network
        hidden: Any

    def fitted(self, observation_shape: tuple[int, ...]) -> Network:
        """The network with everything decided that an observation's shape decides."""
        return self

    def latent_shape(self, observation_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the encoder's output z; an error where the observation does not fit."""
        raise NotImplementedError

    def encoder_shapes(self, observation_shape: tuple[int, ...]) -> list[Layer]:
        raise NotImplementedError

    def dynamics_shapes(self, n_actions: int) -> list[Layer]:
        """The layers of the latent dynamics, which SPR unrolls."""
        raise BadSetting(f"{self!r} has no dynamics, which SPR needs")


@dataclass(frozen=True)
class Conv(Network):
    """Convolutions (VALID), then one dense layer."""

    channels: tuple[int, ...] = shape((16,))
    kernels: tuple[tuple[int, int], ...] = shape(((3, 3),))
    strides: tuple[tuple[int, int], ...] = shape(((1, 1),))
    hidden: int = shape(128)
    head: Head = added(LeakyNorm())

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

    def latent_shape(self, observation_shape: tuple[int, ...]) -> tuple[int, ...]:
        height, width = observation_shape[:2]
        for (kh, kw), (sh, sw) in zip(self.kernels, self.strides, strict=True):
            height, width = (height - kh) // sh + 1, (width - kw) // sw + 1
            if height < 1 or width < 1:
                raise BadSetting(
                    f"an image of {observation_shape[0]} x {observation_shape[1]} is too small for {self!r}: "
                    "set network=Conv(channels, kernels, strides, hidden) with smaller kernels or strides"
                )
        return height, width, self.channels[-1]

    def encoder_shapes(self, observation_shape: tuple[int, ...]) -> list[Layer]:
        depths = itertools.pairwise((observation_shape[2], *self.channels))
        return [_conv((k[0], k[1]), i, o) for k, (i, o) in zip(self.kernels, depths, strict=True)]

    def dynamics_shapes(self, n_actions: int) -> list[Layer]:
        """Two layers, the one-hot action joined to the first one's input as constant planes."""
        size = self.channels[-1]
        return [_conv((3, 3), size + n_actions, size), _conv((3, 3), size, size)]


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, int) for n in value)


@dataclass(frozen=True)
class Mlp(Network):
    """Dense layers for vector observations, then one dense layer as for images."""

    axes: ClassVar[int] = 1
    widths: tuple[int, ...] = shape((128,))
    hidden: int = shape(128)
    head: Head = added(LeakyNorm())

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(isinstance(width, int) for width in self.widths):
            raise BadSetting(f"Mlp takes widths as whole numbers, e.g. Mlp((128, 128), 128); got {self!r}")

    def latent_shape(self, observation_shape: tuple[int, ...]) -> tuple[int, ...]:
        return (self.widths[-1],)

    def encoder_shapes(self, observation_shape: tuple[int, ...]) -> list[Layer]:
        return [_dense(i, o) for i, o in itertools.pairwise((observation_shape[0], *self.widths))]

    def dynamics_shapes(self, n_actions: int) -> list[Layer]:
        """Two layers, the one-hot action joined to the first one's input."""
        size = self.widths[-1]
        return [_dense(size + n_actions, size), _dense(size, size)]


@dataclass(frozen=True)
class BySuite(Network):
    """The paper's network for the suite that the observation's shape belongs to; an Mlp for vectors."""

    third_kernel: int = shape(3)  # 3 gives the paper's parameter counts; its table prints 2
    head: Head = added(LeakyNorm())

    def fitted(self, observation_shape: tuple[int, ...]) -> Network:
        return replace(_by_suite(self, observation_shape), head=self.head)


def _by_suite(network: BySuite, observation_shape: tuple[int, ...]) -> Conv | Mlp:
    if len(observation_shape) == 1:
        return Mlp()
    if observation_shape[:2] == (32, 64):
        return _large((4, 8), (2, 4), network.third_kernel)
    if max(observation_shape[:2], default=0) <= 16:
        return Conv()
    return _large((8, 8), (4, 4), network.third_kernel)


def _large(first_kernel: tuple[int, int], first_stride: tuple[int, int], third: int) -> Conv:
    return Conv((32, 64, 64), (first_kernel, (4, 4), (third, third)), (first_stride, (2, 2), (1, 1)), 512)


def fit(network: Network, observation_shape: tuple[int, ...]) -> Network:
    """The network's concrete shape for this observation; an error where they do not go together."""
    fitted = network.fitted(observation_shape)
    if len(observation_shape) != fitted.axes:
        raise BadSetting(f"{fitted!r} needs an observation of {fitted.axes} axes, got shape {observation_shape}")
    fitted.latent_shape(observation_shape)
    return fitted


def q_shapes(network: Network, observation_shape: tuple[int, ...], n_actions: int) -> Shapes:
    """Modules of a value network (Q, and QRC's h): encoder, projection, head."""
    latent = prod(network.latent_shape(observation_shape))
    return {
        "encoder": network.encoder_shapes(observation_shape),
        "projection": dense_shapes(latent, network.hidden),
        "head": [{"w": (network.hidden, n_actions)}],
    }


def dense_shapes(inputs: int, outputs: int) -> list[Layer]:
    """A module of one dense layer."""
    return [_dense(inputs, outputs)]


def _dense(inputs: int, outputs: int) -> Layer:
    return {"w": (inputs, outputs), "b": (outputs,)}


def _conv(kernel: tuple[int, int], inputs: int, outputs: int) -> Layer:
    return {"w": (*kernel, inputs, outputs), "b": (outputs,)}


def count(modules: Shapes) -> int:
    """Number of parameters."""
    return sum(prod(s) for layers in modules.values() for layer in layers for s in layer.values())
