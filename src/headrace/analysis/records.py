"""Runs as an analysis sees them: found below a folder, described by their manifest, tables read only when asked for.

Runs in folders of their own and packed ones (`headrace.runs.packs`) are read alike. What cannot be read is named in
`Found.problems` and never raises.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from headrace.agents import agent_of, name_of
from headrace.envs.registry import environment_of
from headrace.errors import HeadraceError, counted
from headrace.part import is_at_hand
from headrace.runs import manifest, packs, zoo
from headrace.runs.files import open_file
from headrace.runs.folder import CHECKPOINTS, METRICS, SCORED_POINTS, Score, damage, score, status_of
from headrace.runs.tables import Columns, last_rows, newest_step, sampled_rows

STATES = ("finished", "running", "interrupted", "diverged", "failed")  # in the order in which they are listed
PARTS = {METRICS, CHECKPOINTS}  # what tells that a folder is a run's, beside the manifest
CURVE_POINTS = 400  # of a learning curve: more cannot be seen
REPORT_MARK = '<meta name="generator" content="headrace report">'  # near the top of a report's page


class Problem(NamedTuple):
    """A folder that looks like a run and cannot be read as one."""

    path: Path
    why: str


@dataclass(frozen=True)
class Record:
    """One run. `agent` and `env` are its names as tables show them, with every setting that is not the usual one."""

    path: Path
    agent: str
    suite: str  # the family of environments, with the rules that are not the usual ones
    env: str
    seed: int
    steps: int  # the budget
    engine: str
    state: str  # one of STATES
    step: int  # the last one logged
    score: Score | None
    manifest: dict[str, Any] = field(repr=False, hash=False, compare=False)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def place(self) -> tuple[Any, ...]:
        """Which run it is, whatever computed it."""
        return self.suite, self.steps, self.agent, self.env, self.seed

    @property
    def cause(self) -> str:
        """Why the run ended early, where it said so."""
        return manifest.why_ended(self.manifest)

    def curve(self, columns: Sequence[str] = ("return",), points: int = CURVE_POINTS) -> Columns:
        """`step` and the asked-for columns of metrics.csv at evenly spaced rows, the last among them.

        Columns that the run does not log are absent.
        """
        return {name: column for name, column in self.table(points).items() if name in ("step", *columns)}

    def table(self, points: int = CURVE_POINTS) -> Columns:
        """All columns of metrics.csv at those rows."""
        path = self.path / METRICS
        try:
            facts = (packs.holder(self.path) or path).stat()
        except OSError:
            return {}
        return _sampled(path, facts.st_mtime_ns, facts.st_size, points)


@dataclass(frozen=True)
class Found:
    """Every run below some folders."""

    records: list[Record]
    problems: list[Problem]
    foreign: int  # files that belong to no run

    def notices(self) -> list[str]:
        """One line for everything a reader of results should know before believing them."""
        said = [f"{p.path}: {p.why}" for p in self.problems]
        if self.foreign:
            was = "belongs to no run was" if self.foreign == 1 else "belong to no run were"
            said.append(f"{counted(self.foreign, 'file')} that {was} passed over")
        return [*said, *duplicates(self.records)[1]]


def find_runs(folders: str | Path | Iterable[str | Path], read: Callable[[Path], Record] | None = None) -> Found:
    """The runs below the folders, at any depth, sorted by suite, budget, agent, environment and seed.

    Each is read by `read_record`, or by another function that gives a record. Raises HeadraceError where a folder does
    not exist; an empty one has no runs.
    """
    roots = [folders] if isinstance(folders, str | Path) else list(folders)
    records: dict[Path, Record] = {}
    problems: list[Problem] = []
    foreign = 0
    for root in map(zoo.located, roots):
        if not root.is_dir() and not packs.holder(root):
            raise HeadraceError(f"{root} {'is not a folder' if root.exists() else 'does not exist'}: no runs to read")
        for path, names in _folders(root):
            if not names & {manifest.FILE, *PARTS}:
                others = (name for name in names - {packs.FILE} if not name.startswith("."))
                foreign += sum((path / name).is_file() for name in others)
            for found in _runs_at(path, names, read or read_record):
                if isinstance(found, Record):
                    records[found.path.resolve()] = found
                else:
                    problems.append(found)
    return Found(sorted(records.values(), key=lambda r: (*r.place, r.engine, r.name)), problems, foreign)


def _runs_at(folder: Path, names: set[str], read: Callable[[Path], Record]) -> Iterator[Record | Problem]:
    """The run whose folder this is and those in its pack, or why they cannot be read."""
    paths = [folder] if manifest.FILE in names else []
    if not paths and names & PARTS:
        yield Problem(folder, f"it has no {manifest.FILE}: a run that was never begun, or half copied")
    if packs.FILE in names:
        try:
            paths += packs.runs(folder / packs.FILE)
        except HeadraceError as error:
            yield Problem(folder / packs.FILE, str(error).removeprefix(f"{folder / packs.FILE} "))
    for path in paths:
        try:
            yield read(path)
        except (HeadraceError, OSError) as error:
            yield Problem(path, _without(path, error))


def _folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Every folder below the root with the names in it; a run's own folders and reports on runs are not entered."""
    if packs.holder(root):
        yield root, {manifest.FILE}
    for path, below, files in os.walk(root):
        names = {*below, *files}
        yield Path(path), names
        is_run = manifest.FILE in names or names & PARTS
        below[:] = [] if is_run else sorted(name for name in below if not name.startswith("."))
        below[:] = [name for name in below if not is_report(Path(path) / name)]


def is_report(folder: Path) -> bool:
    """Whether a folder holds a report of ours."""
    try:
        with open_file(folder / "index.html") as page:
            return REPORT_MARK.encode() in page.read(500)
    except (OSError, HeadraceError):
        return False


def _without(path: Path, error: Exception) -> str:
    """The error's words without the folder's name, which stands before them anyway."""
    return str(error).replace(f"{path}{os.sep}", "")


def read_record(path: str | Path) -> Record:
    """The run in a folder; HeadraceError says why where there is none."""
    path = Path(path)
    facts = manifest.load(path)
    identity = facts["identity"]
    try:
        manifest.require_run(identity)
    except ValueError as error:
        raise HeadraceError(f"{path / manifest.FILE} does not say which run this is: {error}") from error
    if why := damage(path, facts):
        raise HeadraceError(why)
    agent = agent_label(identity["agent"], facts.get("agent", "unknown"))
    suite, env = env_labels(identity["env"])
    tail = last_rows(path / METRICS, SCORED_POINTS)
    step, engine = newest_step(path / METRICS, tail), identity.get("engine", "unknown")
    seed, steps = identity["seed"], identity["steps"]
    return Record(path, agent, suite, env, seed, steps, engine, status_of(path, facts), step, score(tail), facts)


def env_labels(env: Mapping[str, Any]) -> tuple[str, str]:
    """The suite and the environment's name; rules that are not the usual ones make another suite of it."""
    return _env_labels(json.dumps(env, sort_keys=True))


@cache
def _env_labels(env_json: str) -> tuple[str, str]:
    env = json.loads(env_json)
    name = env["name"]
    try:
        rules = environment_of(env).label.removeprefix(name) if is_at_hand(env["rules"]) else ""
    except HeadraceError:
        rules = ""
    return name.partition("/")[0] + rules, name


def agent_label(agent: Mapping[str, Any], said: str) -> str:
    """The agent's name; one with parts of another version keeps the name that its run gave it."""
    return _agent_label(json.dumps(agent, sort_keys=True), said)


@cache
def _agent_label(agent_json: str, said: str) -> str:
    agent = json.loads(agent_json)
    try:
        return name_of(agent_of(agent)) if is_at_hand(agent) else said
    except HeadraceError:
        return said


def duplicates(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """The records with one for each (agent, environment, budget, seed), and what was left out in words.

    Where there are several, as of two engines, a finished one is taken before others, then the first by name.
    """
    chosen: dict[tuple[Any, ...], Record] = {}
    extra: dict[tuple[Any, ...], list[Record]] = {}
    for record in sorted(records, key=lambda r: (r.state != "finished", -r.step, r.name)):
        if record.place in chosen:
            extra.setdefault(record.place, []).append(record)
        else:
            chosen[record.place] = record
    kept = set(map(id, chosen.values()))
    said = [
        f"{len(more) + 1} runs of {key[2]} on {key[3]}, {key[1]:,} steps, seed {key[4]}: {chosen[key].name} is used, "
        f"{', '.join(r.name for r in more)} left out"
        for key, more in extra.items()
    ]
    return [record for record in records if id(record) in kept], said


@lru_cache(maxsize=1 << 12)
def _sampled(path: Path, changed: int, size: int, points: int) -> Columns:
    """What was read is kept until the table changes: several figures want columns of thousands of runs."""
    return sampled_rows(path, points)


def finite_or_nan(value: Any) -> float:
    """A number from a manifest, or NaN where it has none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan
