"""A projection too large to be written at every step: its trace, and what it has learnt of late, are kept as factors.

The rows are those of `kernels/factors.py`. What is saved is what other layers save, written out, and beside it
everything that it takes to go on to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log

import numpy as np

from headrace.engines.fast.frame import Entry, Frame, check_fit
from headrace.engines.fast.kernels.factors import (
    LOST,
    NUMBERS,
    OLD,
    OLD_SIZE,
    OLD_TAKEN,
    SMALLEST,
    WW,
    WZ,
    ZZ,
    factored_back,
    factored_both_ways,
    factored_flush,
    factored_move,
    factored_through,
)
from headrace.engines.fast.machine import write_out
from headrace.engines.fast.memory import ALIGNMENT, NONE, Block, Program
from headrace.engines.fast.networks import ValuePass
from headrace.engines.fast.tiles import TILE_COLUMNS
from headrace.errors import CheckpointDamaged

LARGE = 2**18  # weights: with as many as this, two traces and two networks no longer stay in a core's own cache
LONGEST = 96  # rows of a trace: with more, the window costs what it saves
EVERY = 32  # steps from one time that rows are added to the weights to the next


@dataclass(frozen=True)
class Motion:
    """What moves a layer: as in `factored_move`."""

    keep: int
    terms: int
    square: int
    x: int
    d: int
    rate: int = NONE
    x_value: int = NONE
    d_value: int = NONE


def rows_of_trace(decay: float) -> int:
    """How many rows a trace that keeps so much of itself at every step has at most; too many where it never ends."""
    if decay >= 1:
        return LONGEST + 1
    return 2 + floor(log(SMALLEST) / log(decay)) if decay > SMALLEST else 2  # one more than that, whatever is rounded


def pays(weights: Block, decay: float) -> bool:
    """Whether a layer whose trace decays like this is better kept as factors."""
    outputs = weights.layers[0].shapes["w"][1]
    return weights.size >= LARGE and outputs % TILE_COLUMNS == 0 and rows_of_trace(decay) <= LONGEST


class FactoredLayer:
    """The projection of one value network, with its trace."""

    def __init__(self, frame: Frame, name: str, trace: Block, decay: float, at_once: int, phase: int) -> None:
        """A step adds `at_once` rows; `phase` says at which steps some are added to the weights."""
        memory, weights = frame.memory, frame.params[name]
        self.inputs, self.outputs = weights.layers[0].shapes["w"]
        self._frame, self._phase = frame, phase
        self._shape = self.inputs + 1, self.outputs
        self._rows = rows_of_trace(decay) + at_once * EVERY
        self._step = _odd_lines(self.inputs + 1)
        self._w, self._z, self._count = weights.offset, trace.offset, memory.whole(0)
        self._state = memory.room(NUMBERS + 3 * self._rows)
        self._xs, self._ds = memory.room(self._rows * self._step), memory.room(self._rows * self.outputs)
        self._packed, self._seen = memory.room(self._rows * (self.outputs + 1)), dict[int, int]()
        self._written_out = frame.take_over(weights), frame.take_over(trace)
        title = f"stream/factors/{name}"
        self._own = [
            Entry(f"{title}/weights", self._w, self._shape),
            Entry(f"{title}/x", self._xs, (self._rows, self.inputs + 1), stride=self._step),
            Entry(f"{title}/d", self._ds, (self._rows, self.outputs)),
            Entry(f"{title}/numbers", self._state, (NUMBERS + 3 * self._rows,)),
            Entry(f"{title}/count", self._count, (), np.int32),
        ]
        self._old = Entry(f"{title}/old_trace", self._z, self._shape)

    # as instructions

    def through(self, program: Program, value: ValuePass) -> None:
        program.emit(factored_through, **self._places(), x=value.x, y=value.y, seen=self.seen(value))

    def back(self, program: Program, value: ValuePass) -> None:
        program.emit(factored_back, **self._places(), d=value.d, dx=value.dx, seen=self.seen(value))

    def both_ways(self, program: Program, there: ValuePass, back: ValuePass, count: int = 1) -> None:
        """A layer that learns from the RL update alone has one latent at a time."""
        assert count == 1
        program.emit(
            factored_both_ways, **self._places(), x=there.x, y=there.y, seen=self.seen(there), d=back.d, dx=back.dx,
            seen_back=self.seen(back),
        )  # fmt: skip

    def move(self, program: Program, motion: Motion, learning: ValuePass, bootstrap: ValuePass | None) -> None:
        """One step; what both evaluations saw of the rows is what the length of the update is made of."""
        program.emit(
            factored_move, **self._window(), inputs=self.inputs, outputs=self.outputs, step=self._step,
            keep=motion.keep, terms=motion.terms, rate=motion.rate, square=motion.square, x=motion.x, d=motion.d,
            seen=self.seen(learning), x_value=motion.x_value, d_value=motion.d_value,
            seen_value=self.seen(bootstrap) if bootstrap else NONE,
        )  # fmt: skip
        program.emit(
            factored_flush, **self._places(), packed=self._packed, clock=self._frame.step, every=EVERY,
            phase=self._phase,
        )  # fmt: skip

    def seen(self, value: ValuePass) -> int:
        """Where an evaluation keeps what it has seen of the rows."""
        if value.x not in self._seen:
            self._seen[value.x] = self._frame.memory.room(3 * self._rows + 2 * self.outputs)
        return self._seen[value.x]

    def _places(self) -> dict[str, int]:
        sizes = {"inputs": self.inputs, "outputs": self.outputs, "step": self._step}
        return {"w": self._w, "z": self._z, **self._window(), **sizes}

    def _window(self) -> dict[str, int]:
        return {"count": self._count, "state": self._state, "xs": self._xs, "ds": self._ds, "rows": self._rows}

    # as arrays

    def start(self, f: np.ndarray, n: np.ndarray) -> None:
        """From weights and a trace that are written out."""
        w, z, state = self._matrix(f, self._w), self._matrix(f, self._z), self._state
        f[state : state + NUMBERS] = n[self._count] = 0
        f[state + WW], f[state + ZZ], f[state + WZ] = _inner(w, w), _inner(z, z), _inner(w, z)
        f[state + OLD], f[state + OLD_SIZE] = 1 if f[state + ZZ] else 0, np.sqrt(f[state + ZZ])

    def forget(self, f: np.ndarray) -> None:
        """The trace was cut."""
        trace = self._state + NUMBERS + self._rows
        f[trace : trace + self._rows] = 0
        f[self._state + np.array([OLD, ZZ, WZ])] = 0

    def save(self, f: np.ndarray, n: np.ndarray) -> dict[str, np.ndarray]:
        """Weights and trace written out; and what they are kept as."""
        numbers = f[self._state : self._state + NUMBERS]
        weights, trace = self._matrix(f, self._w).copy(), np.zeros(self._shape, np.float32)
        self._add_factors(f, n, weights, 0, numbers[LOST])
        self._add_factors(f, n, trace, self._rows, np.float32(0))
        own = {entry.name: entry.read(f, n) for entry in self._own}
        if numbers[OLD] or numbers[OLD_TAKEN]:
            weights += numbers[OLD_TAKEN] * self._matrix(f, self._z)
            trace += numbers[OLD] * self._matrix(f, self._z)
            own[self._old.name] = self._old.read(f, n)
        for entries, matrix in zip(self._written_out, (weights, trace), strict=True):
            own.update({entry.name: part for entry, part in zip(entries, (matrix[:-1], matrix[-1]), strict=True)})
        return own

    def check_fit(self, arrays: dict[str, np.ndarray]) -> None:
        for entry in (*self._written_out[0], *self._written_out[1], *(self._own if self._held(arrays) else ())):
            check_fit(entry, arrays)
        if self._held(arrays) and not 0 <= arrays[self._own[-1].name] <= self._rows:
            raise CheckpointDamaged(f"{self._own[-1].name} is {arrays[self._own[-1].name]}, not 0 to {self._rows}")
        if self._old.name in arrays:
            check_fit(self._old, arrays)

    def restore(self, f: np.ndarray, n: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        """As it was saved; or from what is written out, where another engine saved it, or one with another window."""
        if self._held(arrays):
            for entry in (*self._own, *([self._old] if self._old.name in arrays else [])):
                entry.write(f, n, arrays[entry.name])
            return
        for entry in (*self._written_out[0], *self._written_out[1]):
            entry.write(f, n, arrays[entry.name])
        self.start(f, n)

    def _held(self, arrays: dict[str, np.ndarray]) -> bool:
        window = self._own[1]
        return window.name in arrays and arrays[window.name].shape == window.shape

    def _matrix(self, f: np.ndarray, at: int) -> np.ndarray:
        return f[at : at + self._shape[0] * self._shape[1]].reshape(self._shape)

    def _add_factors(self, f: np.ndarray, n: np.ndarray, matrix: np.ndarray, skip: int, lost: np.float32) -> None:
        factors = self._state + NUMBERS + skip
        live = int(n[self._count])
        write_out(
            f, matrix.reshape(-1), factors, lost, self._xs, self._ds, live, self.inputs, self.outputs, self._step,
            self._packed,
        )  # fmt: skip


def _odd_lines(size: int) -> int:
    """Room for so many numbers, an odd number of lines: rows then do not all fall into the same places of a cache."""
    lines = -(-size // ALIGNMENT)
    return (lines + 1 - lines % 2) * ALIGNMENT


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    """The inner product of two matrices, the sums of rows being added up in double precision."""
    return float(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64))
