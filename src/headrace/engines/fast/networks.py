"""Encoders, dynamics and value networks as instructions, forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headrace.agents.network import Conv, LeakyNorm, Mlp, Relu
from headrace.engines.fast.convolution import Convolution, Geometry
from headrace.engines.fast.kernels.accounts import copy
from headrace.engines.fast.kernels.layers import (
    activate,
    column_sums,
    dense,
    dense_back,
    dense_both_ways,
    head,
    head_back,
    outer,
    rectify,
    unactivate,
    unrectify,
)
from headrace.engines.fast.memory import Block, Memory, Program


@dataclass(frozen=True)
class Trail:
    """What one evaluation of an encoder leaves behind for the way back."""

    image: int  # what is evaluated; it stays as it is until the way back
    inputs: list[int]  # of each layer
    outputs: list[int]
    scales: list[int]

    def ending_at(self, out: int) -> Trail:
        """The same room for another evaluation, whose result goes to `out`."""
        return Trail(self.image, self.inputs, [*self.outputs[:-1], out], self.scales)


class ConvEncoder:
    """Convolutions, each followed by LayerNorm and LeakyReLU."""

    def __init__(self, network: Conv, shape: tuple[int, ...], memory: Memory) -> None:
        self.layers: list[Convolution] = []
        height, width, channels = shape
        for outputs, kernel, stride in zip(network.channels, network.kernels, network.strides, strict=True):
            geometry = Geometry((height, width, channels), _pair(kernel), _pair(stride), outputs)
            self.layers.append(Convolution(geometry, memory))
            height, width, channels = geometry.result
        self._memory, self._turned = memory, dict[int, list[int]]()
        self._slopes = [layer.room_for_slopes(memory) for layer in self.layers[1:]]

    def trail(self, memory: Memory, image: int, out: int) -> Trail:
        """Room for one evaluation, whose result goes to `out`."""
        inner = [memory.room(layer.geometry.size) for layer in self.layers[:-1]]
        return Trail(image, [image, *inner], [*inner, out], [memory.real(0.0) for _ in self.layers])

    def forward(self, program: Program, weights: Block, trail: Trail) -> None:
        places = zip(self.layers, weights.layers, trail.inputs, trail.outputs, trail.scales, strict=True)
        for layer, at, x, y, scale in places:
            g = layer.geometry
            layer.forward(program, at.w, x, y)
            program.emit(activate, y=y, bias=at.b, size=g.size, width=g.outputs, scale=scale)

    def turn(self, program: Program, weights: Block) -> None:
        """Turns the weights over, once for every way back through them in the same step."""
        if weights.offset not in self._turned:
            self._turned[weights.offset] = [layer.room_to_turn(self._memory) for layer in self.layers[1:]]
        for layer, at, turned in zip(self.layers[1:], weights.layers[1:], self._turned[weights.offset], strict=True):
            layer.turn(program, at.w, turned)

    def backward(self, program: Program, weights: Block, trail: Trail, slopes: int, gradient: Block) -> None:
        """The gradient of the weights from that of the result, which is overwritten; they have been turned over."""
        for i in range(len(self.layers) - 1, -1, -1):
            layer, into, g = self.layers[i], gradient.layers[i], self.layers[i].geometry
            program.emit(unactivate, a=trail.outputs[i], d=slopes, size=g.size, width=g.outputs, scale=trail.scales[i])
            layer.gradient(program, trail.inputs[i], slopes, into.w)
            program.emit(column_sums, d=slopes, out=into.b, rows=g.places, width=g.outputs)
            if i > 0:
                layer.backward(program, self._turned[weights.offset][i - 1], slopes, self._slopes[i - 1])
                slopes = self._slopes[i - 1]


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]


class MlpEncoder:
    """Dense layers, each followed by LayerNorm and LeakyReLU; inputs are rows that end in a one."""

    def __init__(self, network: Mlp, shape: tuple[int, ...], memory: Memory) -> None:
        self.sizes = (shape[0], *network.widths)
        self._slopes = [memory.room(width) for width in network.widths[:-1]]

    def trail(self, memory: Memory, image: int, out: int) -> Trail:
        inner = [memory.row(width) for width in self.sizes[1:-1]]
        first = memory.row(self.sizes[0])
        return Trail(image, [first, *inner], [*inner, out], [memory.real(0.0) for _ in self.sizes[1:]])

    def forward(self, program: Program, weights: Block, trail: Trail) -> None:
        program.emit(copy, source=trail.image, out=trail.inputs[0], size=self.sizes[0])
        for i, layer in enumerate(weights.layers):
            y, width = trail.outputs[i], self.sizes[i + 1]
            program.emit(dense, w=layer.w, x=trail.inputs[i], y=y, count=1, inputs=self.sizes[i] + 1, outputs=width)
            program.emit(activate, y=y, bias=-1, size=width, width=width, scale=trail.scales[i])

    def turn(self, program: Program, weights: Block) -> None:
        """Dense layers are gone back through as they are."""

    def backward(self, program: Program, weights: Block, trail: Trail, slopes: int, gradient: Block) -> None:
        for i in range(len(weights.layers) - 1, -1, -1):
            inputs, width = self.sizes[i], self.sizes[i + 1]
            program.emit(unactivate, a=trail.outputs[i], d=slopes, size=width, width=width, scale=trail.scales[i])
            program.emit(outer, x=trail.inputs[i], d=slopes, out=gradient.layers[i].w, inputs=inputs + 1, outputs=width)
            if i == 0:
                break
            into = self._slopes[i - 1]
            program.emit(dense_back, w=weights.layers[i].w, d=slopes, dx=into, count=1, inputs=inputs, outputs=width)
            slopes = into


Encoder = ConvEncoder | MlpEncoder


def encoder_of(network: Conv | Mlp, shape: tuple[int, ...], memory: Memory) -> Encoder:
    return ConvEncoder(network, shape, memory) if isinstance(network, Conv) else MlpEncoder(network, shape, memory)


@dataclass(frozen=True)
class ValueWeights:
    """Where the modules of one value network lie."""

    encoder: Block
    projection: Block
    head: Block


@dataclass(frozen=True)
class Sizes:
    """Of a value network."""

    latent: int
    hidden: int
    n_actions: int
    head: LeakyNorm | Relu = LeakyNorm()  # between the projection and the layer that gives the values


class Rows(NamedTuple):
    """Latents side by side on their way through one projection, and the gradients of some of them on their way back."""

    x: int  # latents, each followed by a one
    y: int  # what the projection makes of them
    d: int  # gradients of y
    dx: int  # gradients of x

    @staticmethod
    def make(sizes: Sizes, count: int, back: int, memory: Memory) -> Rows:
        """Room for `count` latents, and for the gradients of the first `back` of them."""
        return Rows(
            memory.row(sizes.latent, count), memory.room(count * sizes.hidden), memory.room(back * sizes.hidden),
            memory.room(back * sizes.latent),
        )  # fmt: skip

    def at(self, sizes: Sizes, k: int) -> Rows:
        """The rows from the k-th on."""
        x, y = self.x + k * (sizes.latent + 1), self.y + k * sizes.hidden
        return Rows(x, y, self.d + k * sizes.hidden, self.dx + k * sizes.latent)


class ValuePass:
    """One evaluation of a value network, Q or QRC's h, and its gradient."""

    def __init__(self, encoder: Encoder, sizes: Sizes, memory: Memory, obs: int, rows: Rows | None = None) -> None:
        """`obs` is what is evaluated, `rows` where the projection finds its latent."""
        self.encoder, self.latent, self.hidden, self.n_actions = encoder, sizes.latent, sizes.hidden, sizes.n_actions
        self._rectifies = isinstance(sizes.head, Relu)
        self.x, self.y, self.d, self.dx = rows or Rows.make(sizes, 1, 1, memory)
        self.trail: Trail = encoder.trail(memory, obs, self.x)
        self.scale, self.value = memory.real(0.0), memory.real(0.0)
        self.q, self.slopes = memory.room(self.n_actions), memory.room(self.n_actions)

    def encode(self, program: Program, weights: ValueWeights) -> None:
        self.encoder.forward(program, weights.encoder, self.trail)

    def finish(self, program: Program, weights: ValueWeights) -> None:
        """From the projection's result to the values of all actions."""
        if self._rectifies:
            program.emit(rectify, y=self.y, size=self.hidden)
        else:
            program.emit(activate, y=self.y, bias=-1, size=self.hidden, width=self.hidden, scale=self.scale)
        program.emit(head, w=weights.head.offset, x=self.y, q=self.q, hidden=self.hidden, actions=self.n_actions)

    def back_to_projection(self, program: Program, weights: ValueWeights, gradient: Block) -> None:
        """From the gradient of the values to that of the projection's result, `d`; the head's own is written."""
        program.emit(
            head_back, w=weights.head.offset, x=self.y, dq=self.slopes, dx=self.d, gradient=gradient.offset,
            hidden=self.hidden, actions=self.n_actions,
        )  # fmt: skip
        if self._rectifies:
            program.emit(unrectify, a=self.y, d=self.d, size=self.hidden)
        else:
            program.emit(unactivate, a=self.y, d=self.d, size=self.hidden, width=self.hidden, scale=self.scale)

    def back_to_image(self, program: Program, weights: ValueWeights, gradient: Block) -> None:
        self.encoder.backward(program, weights.encoder, self.trail, self.dx, gradient)


class DenseLayer:
    """The projection of a value network, all of whose weights are in their place."""

    def __init__(self, weights: Block) -> None:
        self.weights = weights
        self.inputs, self.outputs = weights.layers[0].shapes["w"]

    def through(self, program: Program, value: ValuePass) -> None:
        """The latent of an evaluation through the projection."""
        program.emit(
            dense, w=self.weights.offset, x=value.x, y=value.y, count=1, inputs=self.inputs + 1, outputs=self.outputs
        )

    def back(self, program: Program, value: ValuePass) -> None:
        """The gradient of an evaluation back to its latent."""
        program.emit(
            dense_back, w=self.weights.offset, d=value.d, dx=value.dx, count=1, inputs=self.inputs,
            outputs=self.outputs,
        )  # fmt: skip

    def both_ways(self, program: Program, there: ValuePass, back: ValuePass, count: int = 1) -> None:
        """One evaluation's latent, and those that follow it, through the projection and another's gradient back, in one
        pass."""
        program.emit(
            dense_both_ways, w=self.weights.offset, x=there.x, y=there.y, count=count, d=back.d, dx=back.dx,
            inputs=self.inputs, outputs=self.outputs,
        )  # fmt: skip
