"""The paper's tables as plans of runs, and a short one that shows its main comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.agents import VARIANTS
from headrace.errors import unknown
from headrace.sweep.plan import grid
from headrace.training.run import Run, whole

NINE = tuple(VARIANTS)
LONGER = ("dqn", "dqn+spr", "qrc", "qrc+spr+orth", "strq", "strq+spr+orth2")  # what the paper ran for 100M Atari frames


@dataclass(frozen=True)
class PaperTable:
    """Variants x environments x seeds at one length. A step is one decision; the paper counts frames for two suites."""

    title: str
    variants: tuple[str, ...]
    envs: str
    steps: int
    seeds: str = "0:5"

    def runs(self) -> list[Run]:
        return grid(self.variants, self.envs, seeds=self.seeds, steps=self.steps)


MINATAR = PaperTable("the paper's MinAtar table", NINE, "minatar/*", 5_000_000)
OCTAX = PaperTable("the paper's Octax table", NINE, "octax8/*", 5_000_000)
ATARI_40M = PaperTable("the paper's Atari table of 40M frames", NINE, "atari26/*", 10_000_000)
ATARI_100M = PaperTable("the paper's Atari table of 100M frames", LONGER, "atari26/*", 25_000_000)
TABLES: dict[str, tuple[PaperTable, ...]] = {
    "minatar": (MINATAR,),
    "octax": (OCTAX,),
    "atari": (ATARI_40M, ATARI_100M),
}

# Space Invaders: where the runs of 1M steps in results/ differ most, and early.
QUICK = PaperTable(
    "the paper's main comparison on one game",
    ("qrc", "qrc+spr", "qrc+spr+orth"),
    "minatar/space_invaders",
    450_000,
    "0:4",
)


def tables_of(suite: str, *, steps: float | None = None, seeds: str | None = None) -> tuple[PaperTable, ...]:
    """The paper's tables of a suite; with `steps`, one table at that length."""
    if suite not in TABLES:
        raise unknown("table of the paper", suite, list(TABLES))
    found = TABLES[suite]
    if steps is not None:
        length = whole("steps", steps, 1)
        found = tuple(t for t in found if t.steps == length) or (replace(found[0], steps=length),)
    return tuple(replace(table, seeds=seeds) for table in found) if seeds is not None else found


def runs_of(tables: Iterable[PaperTable]) -> list[Run]:
    return [run for table in tables for run in table.runs()]
