"""Resolve engines that were left open, from the executor and from the run folders that exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.runs.folder import RunFolder
from headrace.runs.manifest import FILE
from headrace.training.run import Run

COMPUTED = (("learner", "host"), ("reference", "compiled"), ("reference", "host"))  # every engine with its forms
CONTINUED = "runs that another engine began here are continued by it (choose with --engine)"
BEGUN_ANEW = "runs that another engine began here are begun anew: a fleet cannot continue them"


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
