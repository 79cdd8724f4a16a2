"""What lies where in the machine's memory, and the list of instructions that works on it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from headrace.agents.network import Layer
from headrace.engines.fast.machine import CODES, SKIP, WIDTH

ALIGNMENT = 16  # floats: 64 bytes, a line of cache
NONE = -1  # the offset of what is not there


@dataclass(frozen=True)
class LayerAt:
    """Where a layer's arrays lie; the bias follows the weights."""

    w: int
    b: int
    shapes: Layer


@dataclass(frozen=True)
class Block:
    """A module's arrays one after the other: its weights, its trace, its gradient or its history."""

    offset: int
    size: int
    layers: tuple[LayerAt, ...]


class Memory:
    """Offsets are handed out before there is any memory; `allocate` makes it, with the first values in place."""

    def __init__(self) -> None:
        self.floats = self.sums = self.wholes = 0
        self._first: list[tuple[int, float]] = []
        self._first_wholes: list[tuple[int, int]] = []

    def real(self, *values: float) -> int:
        """Room for these numbers."""
        at = self.room(len(values))
        self._first += [(at + i, value) for i, value in enumerate(values)]
        return at

    def room(self, size: int) -> int:
        """Room for an array."""
        at = self.floats
        self.floats += -(-size // ALIGNMENT) * ALIGNMENT
        return at

    def row(self, size: int, rows: int = 1) -> int:
        """Room for inputs of a dense layer, each followed by the one that its bias takes."""
        at = self.room(rows * (size + 1))
        self._first += [(at + r * (size + 1) + size, 1.0) for r in range(rows)]
        return at

    def whole(self, *values: int) -> int:
        at, self.wholes = self.wholes, self.wholes + len(values)
        self._first_wholes += [(at + i, value) for i, value in enumerate(values)]
        return at

    def sum(self, size: int = 1) -> int:
        """Room for sums in double precision."""
        at, self.sums = self.sums, self.sums + size
        return at

    def block(self, layers: list[Layer]) -> Block:
        sizes = [[prod(shape) for shape in layer.values()] for layer in layers]
        at = start = self.room(sum(map(sum, sizes)))
        found = []
        for layer, (size, *bias) in zip(layers, sizes, strict=True):
            found.append(LayerAt(at, at + size if bias else NONE, layer))
            at += size + sum(bias)
        return Block(start, at - start, tuple(found))

    def allocate(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f, s, n = _aligned(self.floats), np.zeros(self.sums + 1), np.zeros(self.wholes + 1, np.int64)
        for at, value in self._first:
            f[at] = value
        for place, whole in self._first_wholes:
            n[place] = whole
        return f, s, n


def _aligned(size: int) -> np.ndarray:
    """Zeros that begin at a line of cache."""
    raw = np.zeros(size + ALIGNMENT, np.float32)
    skip = -(raw.ctypes.data // 4) % ALIGNMENT
    return raw[skip : skip + size]


class Program:
    """A list of instructions in the making."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []

    def emit(self, instruction: Any, **operands: int) -> None:
        wanted = parameters(instruction)
        if set(wanted) != set(operands):
            raise TypeError(f"{instruction.__name__} takes {wanted}, got {sorted(operands)}")
        row = [CODES[instruction], *(int(operands[name]) for name in wanted)]
        self._rows.append(row + [0] * (WIDTH - len(row)))

    @contextmanager
    def only_if(self, flag: int) -> Iterator[None]:
        """What is emitted within is passed over at steps where the flag is not set."""
        place = len(self._rows)
        self._rows.append([])
        yield
        row = [SKIP, flag, len(self._rows) - place - 1]
        self._rows[place] = row + [0] * (WIDTH - len(row))

    def rows(self) -> np.ndarray:
        return np.array(self._rows, np.int64).reshape(-1, WIDTH)


def parameters(instruction: Any) -> list[str]:
    """The names of an instruction's operands, beside the memory that all of them work on."""
    return [name for name in inspect.signature(instruction.py_func).parameters if name not in ("f", "s", "n")]
