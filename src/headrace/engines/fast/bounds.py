"""The bound of a whole update as instructions: a step that went too far is drawn back."""

from __future__ import annotations

from collections.abc import Callable

from headrace.agents import Bounded
from headrace.engines.fast.frame import Frame
from headrace.engines.fast.kernels.accounts import copy
from headrace.engines.fast.kernels.flat import bound, draw_back, squared_distance
from headrace.engines.fast.memory import Program


class Unbounded:
    """Parameters stay where they went."""

    def remember(self, program: Program) -> None:
        """Before any parameter moves."""

    def draw_back(self, program: Program, evaluate: Callable[[Program], None]) -> None:
        """After all have moved; `evaluate` makes anew what was made of them on the way."""


class Bound(Unbounded):
    """A module moves in the same pass in which the next input goes through it. How far all modules went together is
    known only afterwards; it is seldom too far."""

    def __init__(self, frame: Frame, norm: float) -> None:
        memory, self._blocks = frame.memory, list(frame.params.values())
        self._before = [memory.room(block.size) for block in self._blocks]
        self._longest, self._factor = memory.real(norm), memory.real(1.0)
        self._square, self._acts = memory.sum(), memory.whole(0)

    def remember(self, program: Program) -> None:
        for block, before in zip(self._blocks, self._before, strict=True):
            program.emit(copy, source=block.offset, out=before, size=block.size)

    def draw_back(self, program: Program, evaluate: Callable[[Program], None]) -> None:
        pairs = list(zip(self._blocks, self._before, strict=True))
        for block, before in pairs:
            program.emit(squared_distance, a=block.offset, b=before, size=block.size, out=self._square)
        program.emit(bound, square=self._square, longest=self._longest, factor=self._factor, acts=self._acts)
        with program.only_if(self._acts):
            for block, before in pairs:
                program.emit(draw_back, w=block.offset, before=before, size=block.size, factor=self._factor)
            evaluate(program)


def bound_of(frame: Frame) -> Unbounded | Bound:
    merge = frame.agent.merge
    return Bound(frame, merge.norm) if isinstance(merge, Bounded) else Unbounded()
