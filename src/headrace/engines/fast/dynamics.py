"""SPR's latent dynamics as instructions: K steps forwards, and all of them backwards at once."""

from __future__ import annotations

from math import prod

from headrace.agents.network import Conv, Mlp
from headrace.engines.fast.kernels.accounts import add, zero
from headrace.engines.fast.kernels.layers import (
    activate,
    column_sums,
    dense,
    dense_back,
    join_action,
    mirrored_fold,
    mirrored_patches,
    product,
    turn_over,
    unactivate,
)
from headrace.engines.fast.memory import Block, Memory, Program
from headrace.engines.fast.networks import padded


class ConvDynamics:
    """Two 3x3 convolutions of the same size, reflected at the edges, the action joined to the first one's channels."""

    def __init__(self, latent: tuple[int, ...], n_actions: int, horizon: int, memory: Memory) -> None:
        self.height, self.width, self.channels = latent
        self.n_actions, self.horizon = n_actions, horizon
        self.places, self.size = self.height * self.width, prod(latent)
        joined = self.channels + n_actions
        self._joined = memory.room(self.places * joined)
        self._depths = (joined, self.channels)
        # Those of all steps lie one after the other, so that one product makes the gradient of all of them.
        self._windows = [memory.room(horizon * self.places * 9 * depth) for depth in self._depths]
        self._slopes = [memory.room(horizon * self.size) for _ in range(2)]
        self._middle = [memory.room(self.size) for _ in range(horizon)]
        self._scales = [[memory.real(0.0) for _ in range(horizon)] for _ in range(2)]
        self._window_slopes = memory.room(self.places * padded(9 * joined))
        self._turned = [memory.room(self.channels * padded(9 * depth)) for depth in self._depths]

    def forward(self, program: Program, weights: Block, k: int, z: int, action: int, out: int) -> None:
        """The latent after step `k`, at `out`, from the latent before it."""
        program.emit(
            join_action, z=z, out=self._joined, pixels=self.places, channels=self.channels, actions=self.n_actions,
            action=action,
        )  # fmt: skip
        for i, (x, y) in enumerate([(self._joined, self._middle[k]), (self._middle[k], out)]):
            windows = self._windows_at(i, k)
            program.emit(
                mirrored_patches, x=x, out=windows, height=self.height, width=self.width, channels=self._depths[i]
            )
            program.emit(
                product, a=windows, b=weights.layers[i].w, c=y, rows=self.places, columns=self.channels,
                inner=9 * self._depths[i], turn_a=0,
            )  # fmt: skip
            program.emit(
                activate, y=y, bias=weights.layers[i].b, size=self.size, width=self.channels, scale=self._scales[i][k]
            )

    def backward(self, program: Program, weights: Block, k: int, out: int, slopes: int, into: int) -> None:
        """Adds to `into` the gradient of the latent before step `k`, from that of the latent after it."""
        first, second = (slopes_k + k * self.size for slopes_k in self._slopes)
        program.emit(add, source=slopes, out=second, size=self.size)
        for i, (y, d, target) in ((1, (out, second, first)), (0, (self._middle[k], first, into))):
            program.emit(unactivate, a=y, d=d, size=self.size, width=self.channels, scale=self._scales[i][k])
            step = padded(9 * self._depths[i])
            program.emit(
                product, a=d, b=self._turned[i], c=self._window_slopes, rows=self.places, columns=step,
                inner=self.channels, turn_a=0,
            )  # fmt: skip
            program.emit(
                mirrored_fold, d=self._window_slopes, step=step, out=target, height=self.height, width=self.width,
                channels=self._depths[i], kept=self.channels,
            )  # fmt: skip

    def turn(self, program: Program, weights: Block) -> None:
        """Before the way back, which is the same for every step."""
        for slopes in self._slopes:
            program.emit(zero, start=slopes, size=self.horizon * self.size)
        for layer, out, depth in zip(weights.layers, self._turned, self._depths, strict=True):
            window = 9 * depth
            program.emit(turn_over, w=layer.w, out=out, rows=window, columns=self.channels, step=padded(window))

    def gradient(self, program: Program, into: Block) -> None:
        """The gradient of the weights over all steps, once every step has been gone back."""
        rows = self.horizon * self.places
        for i, layer in enumerate(into.layers):
            program.emit(
                product, a=self._windows[i], b=self._slopes[i], c=layer.w, rows=9 * self._depths[i],
                columns=self.channels, inner=rows, turn_a=1,
            )  # fmt: skip
            program.emit(column_sums, d=self._slopes[i], out=layer.b, rows=rows, width=self.channels)

    def _windows_at(self, layer: int, k: int) -> int:
        return self._windows[layer] + k * self.places * 9 * self._depths[layer]


class MlpDynamics:
    """Two dense layers, the action joined to the first one's input; inputs are rows that end in a one."""

    def __init__(self, latent: tuple[int, ...], n_actions: int, horizon: int, memory: Memory) -> None:
        self.size, self.n_actions, self.horizon = latent[0], n_actions, horizon
        self._inputs = (self.size + n_actions, self.size)
        self._rows = [memory.row(inputs, horizon) for inputs in self._inputs]
        self._slopes = [memory.room(horizon * self.size) for _ in range(2)]
        self._scales = [[memory.real(0.0) for _ in range(horizon)] for _ in range(2)]
        self._back = memory.room(self.size)

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

    def gradient(self, program: Program, into: Block) -> None:
        for i, layer in enumerate(into.layers):
            program.emit(
                product, a=self._rows[i], b=self._slopes[i], c=layer.w, rows=self._inputs[i] + 1, columns=self.size,
                inner=self.horizon, turn_a=1,
            )  # fmt: skip

    def _row(self, layer: int, k: int) -> int:
        return self._rows[layer] + k * (self._inputs[layer] + 1)


def dynamics_of(
    network: Conv | Mlp, latent: tuple[int, ...], n_actions: int, horizon: int, memory: Memory
) -> ConvDynamics | MlpDynamics:
    kind = ConvDynamics if isinstance(network, Conv) else MlpDynamics
    return kind(latent, n_actions, horizon, memory)
