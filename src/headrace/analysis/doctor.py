"""The command `headrace doctor`: what is known of the health of runs, over time."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headrace.agents import Agent
from headrace.analysis.records import Problem, Record, find_runs
from headrace.errors import HeadraceError, counted
from headrace.part import from_json
from headrace.runs.folder import RunFolder
from headrace.runs.strict_json import dumps
from headrace.training.health import SYMPTOMS, Finding, Row, Watch, mean_cosine, rows_of

ABOUT = "what is known of a run's health, over time"
ILL = 3  # exit status where there is a finding
WINDOWS = 10  # rows of the table
HINT = "--limits says what is looked for, and from which limits on"

# Title, and the value at a log point.
COLUMNS: dict[str, Callable[[Agent, Row], float]] = {
    "return": lambda agent, row: row["return"],
    "sight": lambda agent, row: row.get("sight", math.nan),
    "latent spread": lambda agent, row: row.get("latent_spread", math.nan),
    "SPR cosine": mean_cosine,
    "overshoot": lambda agent, row: row.get("overshoot", math.nan),
    "|q|": lambda agent, row: abs(row.get("q", math.nan)),
    "guarded": lambda agent, row: row.get("guarded", math.nan),
    "dead units": lambda agent, row: row.get("dead_units", math.nan),
}


@dataclass(frozen=True)
class Examined:
    """A run, what was found, the kinds of symptoms that nothing is known of, and means over windows of log points."""

    record: Record
    findings: list[Finding]
    not_judged: list[str]
    windows: list[dict[str, float]]

    @property
    def verdict(self) -> str:
        if not self.findings:
            return "healthy" if self.windows else "nothing logged yet"
        return ", ".join(dict.fromkeys(finding.kind for finding in self.findings))


def examine(record: Record) -> Examined:
    """Reads a run's log; HeadraceError where its agent is not one of this version."""
    try:
        agent = from_json(record.manifest["identity"]["agent"])
    except (HeadraceError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise HeadraceError(f"{record.path} has an agent that this version does not know: {error}") from error
    rows, watch = list(rows_of(RunFolder.read(record.path).metrics())), Watch(agent)
    found = [finding for row in rows for finding in watch.see(row)]
    if record.state == "diverged":
        step = record.manifest.get("diverged", {}).get("step", record.step)
        found.append(Finding("diverged", step, f"diverged: {record.cause}"))
    return Examined(record, found, watch.not_judged, windows(agent, rows))


def windows(agent: Agent, rows: Sequence[Row]) -> list[dict[str, float]]:
    """Means of what is known over at most ten equal windows, each named by its last step."""
    parts = np.array_split(np.arange(len(rows)), min(WINDOWS, len(rows))) if rows else []
    return [
        {"step": rows[part[-1]]["step"], **{n: _mean([of(agent, rows[i]) for i in part]) for n, of in COLUMNS.items()}}
        for part in parts
    ]


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


# the command


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder, a packed run, or a folder of runs")
    parser.add_argument("--limits", action="store_true", help="say also what is looked for, and from which limits on")


def run(words: argparse.Namespace) -> int:
    """Exits with 0 where all runs are healthy, with 3 where there is a finding."""
    examined, problems = _examined(words.runs)
    for problem in problems:
        print(f"headrace: {problem.path}: {problem.why}", file=sys.stderr)
    if words.json:
        print(dumps({"runs": [_plain(e) for e in examined], "symptoms": symptoms()}))
    else:
        said = [*_alone(examined[0]), HINT] if len(examined) == 1 else _together(examined)
        print("\n".join([*said, *_limits()] if words.limits else said))
    return ILL if any(e.findings for e in examined) else 0


def _examined(paths: list[str]) -> tuple[list[Examined], list[Problem]]:
    """Every run below the paths; HeadraceError where there is none that can be read."""
    found = find_runs(paths)
    examined, problems = [], list(found.problems)
    for record in found.records:
        try:
            examined.append(examine(record))
        except HeadraceError as error:
            problems.append(Problem(record.path, str(error).removeprefix(f"{record.path} ")))
    if not examined:
        told = [f"{problem.path}: {problem.why}" for problem in problems]
        raise HeadraceError("\n".join(told) or f"no run was found in {', '.join(paths)}")
    return examined, problems


def symptoms() -> list[dict[str, Any]]:
    """What is looked for, from which limits on, and where they come from."""
    return [{"kind": s.kind, "points": s.points, "rule": s.rule, "source": s.source} for s in SYMPTOMS]


def _plain(e: Examined) -> dict[str, Any]:
    r = e.record
    who = {"path": str(r.path), "agent": r.agent, "env": r.env, "seed": r.seed, "step": r.step, "steps": r.steps}
    table = [{name: None if math.isnan(value) else value for name, value in w.items()} for w in e.windows]
    found = [asdict(finding) for finding in e.findings]
    return {**who, "verdict": e.verdict, "findings": found, "not_judged": e.not_judged, "windows": table}


def _alone(e: Examined) -> list[str]:
    r = e.record
    titles = ["step", *COLUMNS]
    cells = [titles, *([f"{w['step']:,.0f}", *(_cell(w[name]) for name in COLUMNS)] for w in e.windows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(titles))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return [
        f"{r.agent} on {r.env}, seed {r.seed}, at step {r.step:,} of {r.steps:,} ({r.state})",
        *(["", *table] if e.windows else []),
        "",
        f"verdict: {e.verdict}",
        *(f"  {finding.sentence}" for finding in e.findings),
        *([f"not judged, as nothing was logged of it: {', '.join(e.not_judged)}"] if e.not_judged else []),
    ]


def _limits() -> list[str]:
    """What is looked for, where each limit comes from."""
    rules = (f"  {s.kind:<18} {s.points:>2}  {s.rule}\n{'':24}{s.source}" for s in SYMPTOMS)
    return ["", "looked for (at so many log points in a row):", *rules]


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _together(examined: list[Examined]) -> list[str]:
    lines = [f"{e.verdict:<12}  {e.record.name}" for e in examined]
    found = [f"{e.record.name}: {finding.sentence}" for e in examined for finding in e.findings]
    ill = sum(bool(e.findings) for e in examined)
    return [*lines, *(["", *found] if found else []), "", f"{counted(len(examined), 'run')}, {ill} with findings"]
