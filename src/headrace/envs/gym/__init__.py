"""Any Gymnasium environment with discrete actions. Nothing here needs Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.part import Keywords, Part, added, within

IMPORTS = "HEADRACE_IMPORT"  # the modules that register environments, for this process and those it starts


@dataclass(frozen=True)
class GymRules(Part):
    """What may be changed about a Gymnasium environment."""

    frames: int = within(1, 1, 64)  # stacked in one observation
    kwargs: Keywords = added(Keywords())  # of gymnasium.make
    wrappers: str = added("")  # import paths of what is put around it, from the innermost, separated by commas


def require_module_name(name: str) -> None:
    """An error where a file is named instead of a module."""
    if name.endswith(".py") or "/" in name:
        path = Path(name)
        there = "" if str(path.parent) == "." else f", and start in {path.parent} or put it on PYTHONPATH"
        raise HeadraceError(
            f"--import ({IMPORTS}) takes a module's name, not a file's, got {name!r}: give {path.stem}{there}"
        )
