"""One convolution as instructions, with the tables that its windows are found by."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from headrace.engines.fast.kernels.convolutions import convolve, convolve_back, convolve_gradient, turn_over
from headrace.engines.fast.memory import Memory, Program
from headrace.engines.fast.tiles import TILE_COLUMNS


@dataclass(frozen=True)
class Geometry:
    """From what image, with which windows, to how many channels. The weights have so many more `joined` channels that
    the image does not."""

    image: tuple[int, int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    outputs: int
    joined: int = 0

    @property
    def result(self) -> tuple[int, int, int]:
        rows, columns = ((self.image[i] - self.kernel[i]) // self.stride[i] + 1 for i in range(2))
        return rows, columns, self.outputs

    @property
    def places(self) -> int:
        return self.result[0] * self.result[1]

    @property
    def size(self) -> int:
        return self.places * self.outputs

    @property
    def image_size(self) -> int:
        return prod(self.image)

    @property
    def length(self) -> int:
        """Numbers that lie side by side, in the image and among the weights."""
        channels = self.image[2]
        return channels if self.joined else self.kernel[1] * channels

    def begins(self) -> list[int]:
        """Where every window begins."""
        _, width, channels = self.image
        rows, columns, _ = self.result
        down, across = self.stride[0] * width * channels, self.stride[1] * channels
        return [r * down + c * across for r in range(rows) for c in range(columns)]

    def stretches(self) -> list[tuple[int, int]]:
        """Where the parts of a window begin that lie side by side, and where their weights do."""
        (height, across), (_, width, channels) = self.kernel, self.image
        if not self.joined:
            return [(i * width * channels, i * across * channels * self.outputs) for i in range(height)]
        depth = (channels + self.joined) * self.outputs
        return [((i * width + j) * channels, (i * across + j) * depth) for i in range(height) for j in range(across)]


class Convolution:
    """On `images` images that lie one after the other, of which a pass forwards or back takes one."""

    def __init__(self, geometry: Geometry, memory: Memory, images: int = 1) -> None:
        self.geometry, self._images = geometry, images
        begins, stretches = geometry.begins(), geometry.stretches()
        every = [image * geometry.image_size + begin for image in range(images) for begin in begins]
        self._windows = {
            "rows_at": memory.whole(*every), "windows": memory.whole(*(at for pair in stretches for at in pair)),
            "count": len(stretches), "length": geometry.length, "outputs": geometry.outputs,
        }  # fmt: skip

    def forward(self, program: Program, w: int, x: int, y: int) -> None:
        program.emit(convolve, x=x, w=w, y=y, places=self.geometry.places, **self._windows)

    def room_to_turn(self, memory: Memory) -> int:
        g = self.geometry
        return memory.room(len(g.stretches()) * padded(g.length) * g.outputs)

    def turn(self, program: Program, w: int, turned: int) -> None:
        """Before a way back."""
        windows = {name: at for name, at in self._windows.items() if name != "rows_at"}
        program.emit(turn_over, w=w, out=turned, **windows)

    def room_for_slopes(self, memory: Memory) -> int:
        """Of one image."""
        return memory.room(self.geometry.image_size + TILE_COLUMNS)

    def backward(self, program: Program, turned: int, d: int, dx: int) -> None:
        """The gradient of an image."""
        g = self.geometry
        program.emit(convolve_back, d=d, turned=turned, dx=dx, size=g.image_size, places=g.places, **self._windows)

    def gradient(self, program: Program, x: int, d: int, into: int) -> None:
        """The gradient of the weights, of all images."""
        places = self._images * self.geometry.places
        program.emit(convolve_gradient, x=x, d=d, g=into, places=places, **self._windows)


def padded(size: int) -> int:
    """The next multiple of what a tile does at once."""
    return -(-size // TILE_COLUMNS) * TILE_COLUMNS
