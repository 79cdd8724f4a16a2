"""Which runs of the paper's tables a folder of results has, and which are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.agents import VARIANTS, name_of
from headrace.analysis.records import Problem, Record, find_runs
from headrace.analysis.scores import agent_order
from headrace.errors import HeadraceError, counted
from headrace.training.progress import short_steps
from headrace.training.run import Run

LENGTHS = {"runs_1m": 1_000_000, "runs_5m": 5_000_000}


class Place(NamedTuple):
    """A run, whatever engine computed it."""

    variant: str
    env: str
    seed: int
    steps: int


class Missing(NamedTuple):
    place: Place
    state: str  # `absent`, or the state of the unfinished run

    def as_json(self) -> dict[str, Any]:
        return {**self.place._asdict(), "state": self.state}


class Coverage(NamedTuple):
    """The records of one suite beside a plan."""

    results: Path
    wanted: int
    done: int  # of the plan
    missing: list[Missing]
    finished: Counter[tuple[int, str]]  # runs of the nine variants by length and variant
    others: int  # finished runs of other agents or rules
    problems: list[Problem]  # what looks like a run and cannot be used

    def count(self, steps: int) -> int:
        return sum(number for (length, _), number in self.finished.items() if length == steps)

    def as_json(self) -> dict[str, Any]:
        return {
            "results": str(self.results),
            "wanted": self.wanted,
            "done": self.done,
            "missing_count": len(self.missing),
            **{name: self.count(steps) for name, steps in LENGTHS.items()},
            "finished": [
                {"steps": steps, "variant": variant, "runs": number}
                for (steps, variant), number in sorted(self.finished.items(), key=_by_length)
            ],
            "other_runs": self.others,
            "missing": [missing.as_json() for missing in self.missing],
            "problems": [{"path": str(problem.path), "why": problem.why} for problem in self.problems],
        }

    def text(self) -> str:
        lengths = sorted({steps for steps, _ in self.finished})
        head = f"{'finished runs':16}" + "".join(f"{short_steps(steps):>7}" for steps in lengths)
        rows = [
            f"{variant:16}" + "".join(f"{self.finished[steps, variant] or '-':>7}" for steps in lengths)
            for variant in VARIANTS
        ]
        total = f"{'together':16}" + "".join(f"{self.count(steps):>7}" for steps in lengths)
        beside = [f"beside them {counted(self.others, 'finished run')} of other agents or rules"] if self.others else []
        said = f"{self.results}: {self.done} of {self.wanted} runs are finished, {len(self.missing)} are missing"
        aside = [f"not counted: {problem.path}: {problem.why}" for problem in self.problems]
        return "\n".join([head, *rows, total, *beside, *aside, said] if lengths else [*beside, *aside, said])


def _by_length(item: tuple[tuple[int, str], int]) -> tuple[int, tuple[int, str]]:
    (steps, variant), _ = item
    return steps, agent_order(variant)


def require_results(folder: str | Path) -> Path:
    path = Path(folder)
    if not path.is_dir():
        raise HeadraceError(
            f"there is no folder {folder} with results; they are in the repository, not in the package: "
            "go to a checkout of it, or name the folder with --results"
        )
    return path


def coverage(folder: str | Path, suite: str, plan: Sequence[Run]) -> Coverage:
    """Compares the records below a folder with a plan; a record counts whichever engine made it."""
    path = require_results(folder)
    found = find_runs(path)
    records = [r for r in found.records if r.suite.partition(" ")[0] == suite]
    finished = {_place(r) for r in records if r.state == "finished" and r.agent in VARIANTS and r.suite == suite}
    begun = {_place(r): r.state for r in records if r.suite == suite}
    wanted = dict.fromkeys(Place(name_of(run.agent), run.env.label, run.seed, run.steps) for run in plan)
    missing = [Missing(place, begun.get(place, "absent")) for place in wanted if place not in finished]
    others = {(r.suite, *_place(r)) for r in records if r.state == "finished"}
    return Coverage(
        path,
        len(wanted),
        len(wanted) - len(missing),
        missing,
        Counter((place.steps, place.variant) for place in finished),
        len(others) - len(finished),
        found.problems,
    )


def _place(record: Record) -> Place:
    return Place(record.agent, record.env, record.seed, record.steps)
