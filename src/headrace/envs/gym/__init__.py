"""Any Gymnasium environment with discrete actions and a box of numbers to see. Nothing here needs Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, within

IMPORTS = "HEADRACE_IMPORT"  # the modules that register environments, for this process and those it starts


@dataclass(frozen=True)
class GymRules(Part):
    """What may be changed about a Gymnasium environment from here; the rest is the environment's own."""

    frames: int = within(1, 1, 64)  # stacked in one observation
