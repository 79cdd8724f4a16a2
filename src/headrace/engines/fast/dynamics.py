"""SPR's latent dynamics as instructions: K steps forwards, and all of them backwards at once."""

from __future__ import annotations

from math import prod

from headrace.agents.network import Conv, Mlp
from headrace.engines.fast.convolution import Convolution, Geometry
from headrace.engines.fast.kernels.accounts import add, zero
from headrace.engines.fast.kernels.convolutions import action_bias, action_gradient, frame_image, unframe_image
from headrace.engines.fast.kernels.layers import (
    activate,
    column_sums,
    dense,
    dense_back,
    join_action,
    unactivate,
)
from headrace.engines.fast.memory import Block, Memory, Program

KERNEL = (3, 3)


class ConvDynamics:
    """Two 3x3 convolutions of the same size, reflected at the edges, the action joined to the first one's channels."""

    def __init__(self, latent: tuple[int, ...], n_actions: int, horizon: int, memory: Memory) -> None:
        self.height, self.width, self.channels = latent
        self.n_actions, self.horizon = n_actions, horizon
        self.places, self.size = self.height * self.width, prod(latent)
        framed = self.height + 2, self.width + 2, self.channels
        self._layers = [
            Convolution(Geometry(framed, KERNEL, (1, 1), self.channels, joined), memory, horizon)
            for joined in (n_actions, 0)
        ]
        # Those of all steps lie one after the other, so that their gradient is made as one.
        self._framed = [memory.room(horizon * prod(framed)) for _ in self._layers]
        self._slopes = [memory.room(horizon * self.size) for _ in self._layers]
        self._middle = [memory.room(self.size) for _ in range(horizon)]
        self._scales = [[memory.real(0.0) for _ in range(horizon)] for _ in self._layers]
        self._bias = memory.room(self.channels)
        self._framed_slopes = self._layers[0].room_for_slopes(memory)
        self._turned = [layer.room_to_turn(memory) for layer in self._layers]

    def forward(self, program: Program, weights: Block, k: int, z: int, action: int, out: int) -> None:
        """The latent after step `k`, at `out`, from the latent before it."""
        first, second = weights.layers
        program.emit(
            action_bias, w=first.w, b=first.b, out=self._bias, action=action, outputs=self.channels, **self._joined()
        )
        ways = [(z, self._middle[k], first.w, self._bias), (self._middle[k], out, second.w, second.b)]
        for i, (x, y, w, b) in enumerate(ways):
            framed = self._framed_at(i, k)
            program.emit(frame_image, x=x, out=framed, **self._image())
            self._layers[i].forward(program, w, framed, y)
            program.emit(activate, y=y, bias=b, size=self.size, width=self.channels, scale=self._scales[i][k])

    def backward(self, program: Program, weights: Block, k: int, out: int, slopes: int, into: int) -> None:
        """Adds to `into` the gradient of the latent before step `k`, from that of the latent after it."""
        first, second = (slopes_k + k * self.size for slopes_k in self._slopes)
        program.emit(add, source=slopes, out=second, size=self.size)
        for i, (y, d, target) in ((1, (out, second, first)), (0, (self._middle[k], first, into))):
            program.emit(unactivate, a=y, d=d, size=self.size, width=self.channels, scale=self._scales[i][k])
            self._layers[i].backward(program, self._turned[i], d, self._framed_slopes)
            program.emit(unframe_image, d=self._framed_slopes, out=target, **self._image())

    def turn(self, program: Program, weights: Block) -> None:
        """Before the way back, which is the same for every step."""
        for slopes in self._slopes:
            program.emit(zero, start=slopes, size=self.horizon * self.size)
        for layer, at, turned in zip(self._layers, weights.layers, self._turned, strict=True):
            layer.turn(program, at.w, turned)

    def gradient(self, program: Program, into: Block, actions: int) -> None:
        """The gradient of the weights over all steps, once every step has been gone back."""
        for layer, x, d, at in zip(self._layers, self._framed, self._slopes, into.layers, strict=True):
            layer.gradient(program, x, d, at.w)
            program.emit(column_sums, d=d, out=at.b, rows=self.horizon * self.places, width=self.channels)
        program.emit(
            action_gradient, d=self._slopes[0], g=into.layers[0].w, action=actions, steps=self.horizon,
            places=self.places, outputs=self.channels, **self._joined(),
        )  # fmt: skip

    def _framed_at(self, layer: int, k: int) -> int:
        return self._framed[layer] + k * self._layers[layer].geometry.image_size

    def _image(self) -> dict[str, int]:
        return {"height": self.height, "width": self.width, "channels": self.channels}

    def _joined(self) -> dict[str, int]:
        return {"taps": prod(KERNEL), "channels": self.channels, "actions": self.n_actions}


class MlpDynamics:
    """Two dense layers, the action joined to the first one's input; inputs are rows that end in a one."""

    def __init__(self, latent: tuple[int, ...], n_actions: int, horizon: int, memory: Memory) -> None:
        self.size, self.n_actions, self.horizon = latent[0], n_actions, horizon
        self._inputs = (self.size + n_actions, self.size)
        self._rows = [memory.row(inputs, horizon) for inputs in self._inputs]
        self._slopes = [memory.room(horizon * self.size) for _ in range(2)]
        self._scales = [[memory.real(0.0) for _ in range(horizon)] for _ in range(2)]
        self._back = memory.room(self.size)
        rows = [Geometry((1, 1, inputs + 1), (1, 1), (1, 1), self.size) for inputs in self._inputs]
        self._sums = [Convolution(row, memory, horizon) for row in rows]  # a sum of outer products, as of one pixel

    def forward(self, program: Program, weights: Block, k: int, z: int, action: int, out: int) -> None:
        joined, middle = self._row(0, k), self._row(1, k)
        program.emit(join_action, z=z, out=joined, pixels=1, channels=self.size, actions=self.n_actions, action=action)
        for i, (x, y) in enumerate([(joined, middle), (middle, out)]):
            program.emit(dense, w=weights.layers[i].w, x=x, y=y, count=1, inputs=self._inputs[i] + 1, outputs=self.size)
            program.emit(activate, y=y, bias=-1, size=self.size, width=self.size, scale=self._scales[i][k])

    def backward(self, program: Program, weights: Block, k: int, out: int, slopes: int, into: int) -> None:
        first, second = (slopes_k + k * self.size for slopes_k in self._slopes)
        program.emit(add, source=slopes, out=second, size=self.size)
        for i, (y, d, target) in ((1, (out, second, first)), (0, (self._row(1, k), first, into))):
            program.emit(unactivate, a=y, d=d, size=self.size, width=self.size, scale=self._scales[i][k])
            program.emit(
                dense_back, w=weights.layers[i].w, d=d, dx=self._back, count=1, inputs=self.size, outputs=self.size
            )
            program.emit(add, source=self._back, out=target, size=self.size)

    def turn(self, program: Program, weights: Block) -> None:
        for slopes in self._slopes:
            program.emit(zero, start=slopes, size=self.horizon * self.size)

    def gradient(self, program: Program, into: Block, actions: int) -> None:
        for x, d, sums, layer in zip(self._rows, self._slopes, self._sums, into.layers, strict=True):
            sums.gradient(program, x, d, layer.w)

    def _row(self, layer: int, k: int) -> int:
        return self._rows[layer] + k * (self._inputs[layer] + 1)


def dynamics_of(
    network: Conv | Mlp, latent: tuple[int, ...], n_actions: int, horizon: int, memory: Memory
) -> ConvDynamics | MlpDynamics:
    kind = ConvDynamics if isinstance(network, Conv) else MlpDynamics
    return kind(latent, n_actions, horizon, memory)
