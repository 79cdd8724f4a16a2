"""What is done to an observation after it was standardised."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, positive


class Limits(Part, slot=True):
    """What is done to a standardised observation."""


@dataclass(frozen=True)
class Unlimited(Limits):
    """Standardised observations as they are."""


@dataclass(frozen=True)
class Limited(Limits):
    """Standardised observations are clipped to [-limit, limit]; the statistics take in the raw ones."""

    limit: float = positive(10.0, "to leave observations alone, use Unlimited()")  # standard deviations
