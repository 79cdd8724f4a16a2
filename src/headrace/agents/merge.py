"""How the value-learning update and the auxiliary update become one."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, check_positive, within


@dataclass(frozen=True)
class Sum(Part):
    """Shared parameters take both updates whole."""


@dataclass(frozen=True)
class Mix(Part):
    """Shared parameters take mix * RL + (1 - mix) * auxiliary; others take their own stream's update whole."""

    mix: float = within(0.5, 0.0, 1.0)


@dataclass(frozen=True)
class SharedFlipped(Part):
    """The sign error of the paper's released code: shared parameters move against the auxiliary update."""


@dataclass(frozen=True)
class Present(Part):
    """The direction in which this step's RL update points (the trace, for Stream Q)."""


@dataclass(frozen=True)
class Average(Part):
    """A moving average of past RL updates, this step's included."""

    beta: float = within(0.99, 0.0, 1.0)


@dataclass(frozen=True)
class AuxOrthogonalToTd(Part):
    """orth2: each shared module's auxiliary update loses its component along the RL direction, then both combine."""

    against: Present | Average = Present()
    combine: Sum | Mix = Mix()


@dataclass(frozen=True)
class PcGrad(Part):
    """PCGrad (Yu et al. 2020): where the two updates of a module conflict, each loses its component along the other."""

    combine: Sum | Mix = Sum()


@dataclass(frozen=True)
class Bounded(Part):
    """What another merge makes of both updates, scaled to a Euclidean norm of at most `norm`, all modules together."""

    inner: Sum | Mix | AuxOrthogonalToTd | PcGrad | SharedFlipped = Sum()
    norm: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "norm", "to leave updates alone, use the inner merge by itself")
