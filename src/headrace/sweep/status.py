"""The status of a plan's runs, from their folders alone, and the engines that were left open in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from headrace.agents import name_of
from headrace.errors import HeadraceError
from headrace.runs import checkpoints
from headrace.runs.folder import CHECKPOINTS, METRICS, SCORED_POINTS, SPEED, RunFolder, Score, score
from headrace.runs.lock import is_held
from headrace.runs.manifest import FILE, differences, why_ended
from headrace.runs.tables import last_rows, newest_step
from headrace.training.run import Run

STATES = ("done", "running", "failed", "diverged", "left")
COMPUTED = (("learner", "host"), ("reference", "compiled"), ("reference", "host"))  # every engine with its forms
CONTINUED = "runs that another engine began here are continued by it (choose with --engine)"
BEGUN_ANEW = "runs that another engine began here are begun anew: a fleet cannot continue them"


class Standing(NamedTuple):
    """The status of one run."""

    run: Run
    path: Path
    state: str  # one of STATES
    step: int  # of the newest checkpoint or the last row of metrics
    rate: float = math.nan  # steps/s when it was last logged
    cause: str = ""  # of a failure or a divergence
    score: Score | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.run.name,
            "agent": name_of(self.run.agent),
            "env": self.run.env.name,
            "seed": self.run.seed,
            "steps": self.run.steps,
            "path": str(self.path),
            "state": self.state,
            "step": self.step,
            "steps_per_s": None if math.isnan(self.rate) else self.rate,
            "cause": self.cause or None,
            "score": self.score.mean if self.score else None,
            "score_points": self.score.points if self.score else 0,
        }


def standings(runs: Iterable[Run], out: str | Path) -> list[Standing]:
    return [standing(run, Path(out)) for run in runs]


def standing(run: Run, out: Path) -> Standing:
    path = out / run.name
    if not path.exists():
        return Standing(run, path, "left", 0)
    try:
        folder = RunFolder.read(path)
        if differing := differences(run.identity(), folder.identity):
            raise HeadraceError(f"{path} belongs to another run: {'; '.join(differing)}")
        folder.require_sound()
        metrics = last_rows(path / METRICS, SCORED_POINTS)
        logged = newest_step(path / METRICS, metrics)
    except HeadraceError as error:
        return Standing(run, path, "failed", 0, cause=str(error))
    state = _state(folder)
    step = run.steps if state == "done" else max(saved_step(path), logged)
    rate = _newest_rate(path / SPEED)
    cause = why_ended(folder.manifest) if state in ("failed", "diverged") else ""
    return Standing(run, path, state, step, rate, cause, score(metrics))


def _state(folder: RunFolder) -> str:
    if folder.status in ("finished", "diverged"):
        return {"finished": "done"}.get(folder.status, folder.status)
    if is_held(folder.path):
        return "running"
    return "failed" if folder.status == "failed" else "left"


def saved_step(path: Path) -> int:
    """The step of a run's newest checkpoint."""
    found = checkpoints.newest_first(path / CHECKPOINTS)
    match = checkpoints.NAME.fullmatch(found[0].name) if found else None
    return int(match[1]) if match else 0


def _newest_rate(path: Path) -> float:
    """The speed logged last; NaN if there is none."""
    with suppress(HeadraceError):
        return float(last_rows(path, 1).get("steps_per_s", [math.nan])[-1])
    return math.nan


class Counts(NamedTuple):
    """How many runs are in each state."""

    done: int
    running: int
    failed: int
    diverged: int
    left: int


def counts(found: Sequence[Standing]) -> Counts:
    return Counts(*(sum(s.state == state for s in found) for state in STATES))


def steps_per_second(found: Sequence[Standing]) -> float:
    """The speed of all running runs together; one that has not logged yet counts as average."""
    running = [s.rate for s in found if s.state == "running"]
    known = [rate for rate in running if rate > 0]
    return sum(known) / len(known) * len(running) if known else 0.0


def seconds_left(found: Sequence[Standing]) -> float | None:
    """Until every run is done, at the present speed; None while the speed is unknown."""
    speed = steps_per_second(found)
    steps = sum(s.run.steps - s.step for s in found if s.state in ("running", "left"))
    return steps / speed if speed > 0 else None


def resolved(runs: Iterable[Run], on: str, out: str | Path) -> list[Run]:
    """The runs as that executor trains them, without duplicates.

    Where the engine was left open, a run that another engine has finished is done, and one that another engine began is
    continued by that engine, except in a fleet.
    """
    chosen = dict.fromkeys(run.in_fleet() if on == "fleet" else run for run in runs)
    return list(dict.fromkeys(_as_found(run, on, Path(out)) for run in chosen))


def _as_found(run: Run, on: str, out: Path) -> Run:
    if not run.open or (out / run.name).exists():
        return run
    others = [other for other in _by_others(run) if (out / other.name / FILE).is_file()]
    ended = [other for other in others if _status(out / other.name) in ("finished", "diverged")]
    if ended:
        return ended[0]
    if others and on != "fleet":
        return replace(others[0], notice=CONTINUED)
    return replace(run, notice=BEGUN_ANEW) if others else run


def _status(folder: Path) -> str:
    """The status in a run's folder; empty if it cannot be read, which is reported when the run is trained."""
    try:
        return RunFolder.read(folder).status
    except HeadraceError:
        return ""


def _by_others(run: Run) -> list[Run]:
    """The same run with each other engine and form."""
    alike = [replace(run, engine=engine, form=form, notice="") for engine, form in COMPUTED]
    return [other for other in alike if other != run]
