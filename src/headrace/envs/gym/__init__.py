"""Any Gymnasium environment with discrete actions or boxes of them. Nothing here needs Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.part import Keywords, Part, added, within

IMPORTS = "HEADRACE_IMPORT"  # the modules that register environments, for this process and those it starts


class Clock(Part, slot=True):
    """What an agent is shown of the time that has passed in an episode."""


@dataclass(frozen=True)
class Hidden(Clock):
    """Nothing."""


@dataclass(frozen=True)
class Shown(Clock):
    """One more number in a vector: -1/2 at first, 1/2 at the time limit, where there is one."""

    steps: int = within(10_000, low=1)  # that stand for the limit where the environment says none


@dataclass(frozen=True)
class GymRules(Part):
    """What may be changed about a Gymnasium environment."""

    frames: int = within(1, 1, 64)  # stacked in one observation
    kwargs: Keywords = added(Keywords())  # of gymnasium.make
    clock: Clock = added(Hidden())
    wrappers: str = added("")  # import paths of what is put around it, from the innermost, separated by commas


def require_module_name(name: str) -> None:
    """An error where a file is named instead of a module."""
    if name.endswith(".py") or "/" in name:
        path = Path(name)
        there = "" if str(path.parent) == "." else f", and start in {path.parent} or put it on PYTHONPATH"
        raise HeadraceError(
            f"--import ({IMPORTS}) takes a module's name, not a file's, got {name!r}: give {path.stem}{there}"
        )
