"""Encoders, dynamics and value networks as instructions, forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from headrace.agents.network import Conv, Mlp
from headrace.engines.fast.kernels.accounts import copy
from headrace.engines.fast.kernels.layers import (
    activate,
    column_sums,
    dense,
    dense_back,
    dense_both_ways,
    fold,
    head,
    head_back,
    outer,
    patches,
    product,
    turn_over,
    unactivate,
)
from headrace.engines.fast.memory import Block, Memory, Program
from headrace.engines.fast.native import TILE_COLUMNS


@dataclass(frozen=True)
class Geometry:
    """One convolution: from what, with which windows, to what."""

    height: int
    width: int
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    rows: int
    columns: int
    outputs: int

    @property
    def places(self) -> int:
        return self.rows * self.columns

    @property
    def size(self) -> int:
        return self.places * self.outputs

    @property
    def window(self) -> int:
        return prod(self.kernel) * self.channels


@dataclass(frozen=True)
class Trail:
    """What one evaluation of an encoder leaves behind for the way back."""

    inputs: list[int]  # of each layer: the windows of its image, or its vector
    outputs: list[int]
    scales: list[int]

    def ending_at(self, out: int) -> Trail:
        """The same room for another evaluation, whose result goes to `out`."""
        return Trail(self.inputs, [*self.outputs[:-1], out], self.scales)


class ConvEncoder:
    """Convolutions, each followed by LayerNorm and LeakyReLU."""

    def __init__(self, network: Conv, shape: tuple[int, ...], memory: Memory) -> None:
        self.layers: list[Geometry] = []
        height, width, channels = shape
        for outputs, kernel, stride in zip(network.channels, network.kernels, network.strides, strict=True):
            rows, columns = (height - kernel[0]) // stride[0] + 1, (width - kernel[1]) // stride[1] + 1
            self.layers.append(Geometry(height, width, channels, _pair(kernel), _pair(stride), rows, columns, outputs))
            height, width, channels = rows, columns, outputs
        self._windows = memory.room(max(g.places * padded(g.window) for g in self.layers))
        self._memory, self._turned = memory, dict[int, list[int]]()
        self._slopes = [memory.room(g.size) for g in self.layers[:-1]]

    def trail(self, memory: Memory, out: int, image: Trail | None = None) -> Trail:
        """Room for one evaluation, whose result goes to `out`; the image's windows may be another's."""
        inner = [memory.room(g.size) for g in self.layers[:-1]]
        first = [image.inputs[0]] if image else [memory.room(self.layers[0].places * self.layers[0].window)]
        windows = [memory.room(g.places * g.window) for g in self.layers[1:]]
        return Trail([*first, *windows], [*inner, out], [memory.real(0.0) for _ in self.layers])

    def forward(self, program: Program, weights: Block, x: int, trail: Trail, known_windows: int = 0) -> None:
        """Evaluates the encoder; the windows of the first `known_windows` layers are there already."""
        for i, g in enumerate(self.layers):
            if i >= known_windows:
                program.emit(
                    patches, x=x, out=trail.inputs[i], width=g.width, channels=g.channels,
                    kernel_h=g.kernel[0], kernel_w=g.kernel[1], stride_h=g.stride[0], stride_w=g.stride[1],
                    rows=g.rows, columns=g.columns,
                )  # fmt: skip
            layer, x = weights.layers[i], trail.outputs[i]
            program.emit(
                product, a=trail.inputs[i], b=layer.w, c=x, rows=g.places, columns=g.outputs, inner=g.window,
                turn_a=0,
            )  # fmt: skip
            program.emit(activate, y=x, bias=layer.b, size=g.size, width=g.outputs, scale=trail.scales[i])

    def turn(self, program: Program, weights: Block) -> None:
        """Turns the weights over, once for every way back through them in the same step."""
        if weights.offset not in self._turned:
            self._turned[weights.offset] = [self._memory.room(g.outputs * padded(g.window)) for g in self.layers]
        turned = self._turned[weights.offset]
        for g, layer, out in list(zip(self.layers, weights.layers, turned, strict=True))[1:]:
            program.emit(turn_over, w=layer.w, out=out, rows=g.window, columns=g.outputs, step=padded(g.window))

    def backward(self, program: Program, weights: Block, trail: Trail, slopes: int, gradient: Block) -> None:
        """The gradient of the weights from that of the result, which is overwritten; they have been turned over."""
        turned = self._turned[weights.offset]
        for i in range(len(self.layers) - 1, -1, -1):
            g, into = self.layers[i], gradient.layers[i]
            program.emit(unactivate, a=trail.outputs[i], d=slopes, size=g.size, width=g.outputs, scale=trail.scales[i])
            program.emit(
                product, a=trail.inputs[i], b=slopes, c=into.w, rows=g.window, columns=g.outputs, inner=g.places,
                turn_a=1,
            )  # fmt: skip
            program.emit(column_sums, d=slopes, out=into.b, rows=g.places, width=g.outputs)
            if i == 0:
                break
            step = padded(g.window)
            program.emit(
                product, a=slopes, b=turned[i], c=self._windows, rows=g.places, columns=step, inner=g.outputs,
                turn_a=0,
            )  # fmt: skip
            slopes = self._slopes[i - 1]
            program.emit(
                fold, d=self._windows, step=step, out=slopes, height=g.height, width=g.width, channels=g.channels,
                kernel_h=g.kernel[0], kernel_w=g.kernel[1], stride_h=g.stride[0], stride_w=g.stride[1],
                rows=g.rows, columns=g.columns,
            )  # fmt: skip


def padded(size: int) -> int:
    """The next multiple of what a product does at once: columns beyond `size` are zero."""
    return -(-size // TILE_COLUMNS) * TILE_COLUMNS


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]


class MlpEncoder:
    """Dense layers, each followed by LayerNorm and LeakyReLU; inputs are rows that end in a one."""

    def __init__(self, network: Mlp, shape: tuple[int, ...], memory: Memory) -> None:
        self.sizes = (shape[0], *network.widths)
        self._slopes = [memory.room(width) for width in network.widths[:-1]]

    def trail(self, memory: Memory, out: int, image: Trail | None = None) -> Trail:
        inner = [memory.row(width) for width in self.sizes[1:-1]]
        first = image.inputs[0] if image else memory.row(self.sizes[0])
        return Trail([first, *inner], [*inner, out], [memory.real(0.0) for _ in self.sizes[1:]])

    def forward(self, program: Program, weights: Block, x: int, trail: Trail, known_windows: int = 0) -> None:
        if not known_windows:
            program.emit(copy, source=x, out=trail.inputs[0], size=self.sizes[0])
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

    def __init__(
        self, encoder: Encoder, sizes: Sizes, memory: Memory, rows: Rows | None = None, image: ValuePass | None = None
    ) -> None:
        """`rows` is where the projection finds its latent; `image` another network's evaluation of the same image."""
        self.encoder, self.latent, self.hidden, self.n_actions = encoder, sizes.latent, sizes.hidden, sizes.n_actions
        self.x, self.y, self.d, self.dx = rows or Rows.make(sizes, 1, 1, memory)
        self.trail: Trail = encoder.trail(memory, self.x, image.trail if image else None)
        self._known = 1 if image else 0
        self.scale, self.value = memory.real(0.0), memory.real(0.0)
        self.q, self.slopes = memory.room(self.n_actions), memory.room(self.n_actions)

    def encode(self, program: Program, weights: ValueWeights, obs: int) -> None:
        self.encoder.forward(program, weights.encoder, obs, self.trail, self._known)

    def finish(self, program: Program, weights: ValueWeights) -> None:
        """From the projection's result to the values of all actions."""
        program.emit(activate, y=self.y, bias=-1, size=self.hidden, width=self.hidden, scale=self.scale)
        program.emit(head, w=weights.head.offset, x=self.y, q=self.q, hidden=self.hidden, actions=self.n_actions)

    def back_to_projection(self, program: Program, weights: ValueWeights, gradient: Block) -> None:
        """From the gradient of the values to that of the projection's result, `d`; the head's own is written."""
        program.emit(
            head_back, w=weights.head.offset, x=self.y, dq=self.slopes, dx=self.d, gradient=gradient.offset,
            hidden=self.hidden, actions=self.n_actions,
        )  # fmt: skip
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

    def both_ways(self, program: Program, there: ValuePass, back: ValuePass) -> None:
        """One evaluation's latent through the projection and another's gradient back, in one pass."""
        program.emit(
            dense_both_ways, w=self.weights.offset, x=there.x, y=there.y, d=back.d, dx=back.dx, inputs=self.inputs,
            outputs=self.outputs,
        )  # fmt: skip
