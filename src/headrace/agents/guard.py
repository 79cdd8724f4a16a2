"""What is done to a gradient before traces, histories and updates see it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, check_positive


class Guard(Part, slot=True):
    """How a gradient's length is bounded."""


@dataclass(frozen=True)
class Unguarded(Guard):
    """The gradient as it is, however long."""


@dataclass(frozen=True)
class Clip(Guard):
    """A gradient longer than `norm` is scaled to that Euclidean norm, over all its modules together.

    Each gradient by itself: QRC has three."""

    norm: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "norm", "to leave gradients alone, use Unguarded()")
