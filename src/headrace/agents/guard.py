"""What is done to a gradient before traces, histories and updates see it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, positive


class Guard(Part, slot=True):
    """How a gradient's length is bounded."""


@dataclass(frozen=True)
class Unguarded(Guard):
    """The gradient as it is, however long."""


@dataclass(frozen=True)
class Clip(Guard):
    """A gradient longer than `norm` is scaled to that Euclidean norm, over all its modules together.

    Each gradient by itself: QRC has three."""

    norm: float = positive(100.0, "to leave gradients alone, use Unguarded()")
