"""How the value-learning update and the auxiliary update become one."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import BadSetting
from headrace.part import Part, positive, within


class Merge(Part, slot=True):
    """How the updates of both streams become one."""


class Join(Merge, slot=True):
    """A merge that remembers nothing, with which others can end."""


@dataclass(frozen=True)
class Sum(Join):
    """Shared parameters take both updates whole."""


@dataclass(frozen=True)
class Mix(Join):
    """Shared parameters take mix * RL + (1 - mix) * auxiliary; others take their own stream's update whole."""

    mix: float = within(0.5, 0.0, 1.0)


@dataclass(frozen=True)
class SharedFlipped(Merge):
    """The sign error of the paper's released code: shared parameters move against the auxiliary update."""


class Direction(Part, slot=True):
    """What orth2 takes for the direction of the RL update."""


@dataclass(frozen=True)
class Present(Direction):
    """The line of this step's RL update: the trace (Stream Q), the gradient (DQN), or the update itself (QRC)."""


@dataclass(frozen=True)
class Average(Direction):
    """A moving average of past RL updates, this step's included."""

    beta: float = within(0.99, 0.0, 1.0)


@dataclass(frozen=True)
class AuxOrthogonalToTd(Merge):
    """orth2: each shared module's auxiliary update loses its component along the RL direction, then both combine."""

    against: Direction = Present()
    combine: Join = Mix()


@dataclass(frozen=True)
class PcGrad(Merge):
    """PCGrad (Yu et al. 2020): where the two updates of a module conflict, each loses its component along the other."""

    combine: Join = Sum()


@dataclass(frozen=True)
class Bounded(Merge):
    """What another merge makes of both updates, scaled to a Euclidean norm of at most `norm`, all modules together."""

    inner: Merge = Sum()
    norm: float = positive(100.0, "to leave updates alone, use the inner merge by itself")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.inner, Bounded):
            raise BadSetting(f"Bounded.inner cannot be Bounded itself, got {self.inner!r}")
