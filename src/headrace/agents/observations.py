"""What is done to an observation after it was standardised."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, check_positive


class Limits(Part, slot=True):
    """What is done to a standardised observation."""


@dataclass(frozen=True)
class Unlimited(Limits):
    """Standardised observations as they are."""


@dataclass(frozen=True)
class Limited(Limits):
    """Standardised observations are clipped to [-limit, limit]; the statistics take in the raw ones."""

    limit: float = 10.0  # standard deviations

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "limit", "to leave observations alone, use Unlimited()")
