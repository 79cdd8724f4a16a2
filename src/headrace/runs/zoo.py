"""Trained agents that come with the package: a pack, whose runs are read as `zoo/NAME` wherever runs are read.

They are made by experiments/zoo.py. Of each, the pack has the manifest, a short learning curve, and of the last
checkpoint what acts: weights, large arrays of them in float16, and the scale of observations.
"""

from __future__ import annotations

from pathlib import Path

from headrace.errors import unknown
from headrace.runs import packs

HOME = Path(__file__).parents[1] / "zoo"


def names() -> list[str]:
    return list(packs.load(HOME / packs.FILE))


def located(path: str | Path) -> Path:
    """Where a run or a folder of runs is: `zoo/NAME` and `zoo` in the package, unless there is such a folder here."""
    path = Path(path)
    if path.parts[:1] != (HOME.name,) or path.exists() or packs.holder(path):
        return path
    if len(path.parts) > 1 and path.parts[1] not in names():
        raise unknown("agent of the zoo", path.parts[1], names())
    return HOME.parent / path
