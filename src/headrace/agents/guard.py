"""What is done to a gradient before anything else sees it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import BadSetting
from headrace.part import Part


@dataclass(frozen=True)
class Unguarded(Part):
    """The gradient as it is, however long."""


@dataclass(frozen=True)
class Clip(Part):
    """A gradient longer than `norm` is scaled to that Euclidean norm, over all modules of its stream together."""

    norm: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm <= 0:
            raise BadSetting(f"Clip.norm must be > 0, got {self.norm!r}; to leave gradients alone, use Unguarded()")
