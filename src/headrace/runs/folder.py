"""A run's folder: its manifest, its tables, its checkpoints.

    <run>/
      manifest.json   who made this: identity, program, machine, start, end, status
      episodes.csv    step,return,length       every finished episode
      metrics.csv     step,...                 what was logged; equal for two equal runs
      speed.csv       step,steps_per_s,seconds what the clock said; differs between two equal runs
      evaluations.csv step,mean,std,...        returns of a frozen copy, where these were asked for
      checkpoints/    the last two
      snapshots/      the encoder at a few steps of the run, kept for good

One process at a time writes a run (`RunFolder.open`); any number may read it meanwhile (`RunFolder.read`). A checkpoint
records how long each table was, so that a run that was killed continues with exactly the rows that belong to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import CheckpointDamaged, HeadraceError, RunConflict, TableChanged
from headrace.runs import checkpoints, manifest, packs, snapshots, tables, zoo
from headrace.runs.checkpoints import Checkpoint, Extent, Saved
from headrace.runs.files import read_file, remove_temporaries, storage_errors, sync_directory, write_atomically
from headrace.runs.lock import claim, create, is_held
from headrace.runs.tables import Columns, Table, read_table, starts_with, whole_lines

CHECKPOINTS = "checkpoints"
EPISODES, METRICS, SPEED = "episodes.csv", "metrics.csv", "speed.csv"
EVALUATIONS = "evaluations.csv"
RESULTS = (EPISODES, METRICS)  # what a run must have to go on, and to be finished
VOUCHED = (*RESULTS, EVALUATIONS)  # for by a finished run; what the clock said is no part of a result
TABLES = (*RESULTS, SPEED)
MEND = "bring back its folder from a copy, or remove it and train the run again"
EPISODE_COLUMNS = (("step", int), ("return", float), ("length", int))
SPEED_COLUMNS = (("step", int), ("steps_per_s", float), ("seconds", float))
EVALUATED = (("step", int), ("mean", float), ("std", float), ("min", float), ("max", float), ("episodes", int))
KEPT_CHECKPOINTS = 2
SCORED_POINTS = 50


class Score(NamedTuple):
    """A run's score, and how many logged points it is the mean of (fewer than 50 while a run is young)."""

    mean: float
    points: int


def score(metrics: Mapping[str, np.ndarray]) -> Score | None:
    """The mean of the last 50 logged points of column `return`; None where no episode has finished yet."""
    logged = np.asarray(metrics.get("return", ()), np.float64)[-SCORED_POINTS:]
    finite = logged[~np.isnan(logged)]
    return Score(float(finite.mean()), len(finite)) if len(finite) else None


def status_of(path: Path, facts: manifest.Manifest) -> str:
    """What the manifest says; but a run that no process trains any more, as after SIGKILL, was interrupted."""
    return "interrupted" if facts["status"] == "running" and not is_held(path) else facts["status"]


def damage(path: Path, facts: manifest.Manifest) -> str:
    """In words, which tables of a finished run are no longer what they were, and what to do; empty where all are.

    What the clock said is no part of a result. A pack holds tables of its own, and its own checksum.
    """
    vouched = facts.get("tables", {}) if facts["status"] == "finished" and not packs.holder(path) else {}
    told = [tables.damage(path / n, vouched[n]["bytes"], vouched[n]["sha256"]) for n in VOUCHED if n in vouched]
    changed = " and ".join(filter(None, told))
    return f"it was changed after it finished ({changed}): {MEND}" if changed else ""


class RunFolder:
    """Reads a run, also while another process is training it.

    Example:
        ```python
        run = headrace.RunFolder.read(done.path)
        run.status, run.score()
        run.metrics()["return"]  # columns as NumPy arrays
        ```
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = manifest.load(path)
        self.notices: list[str] = []

    @staticmethod
    def open(path: str | Path, identity: Mapping[str, Any], details: Mapping[str, Any]) -> RunWriter:
        """The folder of the run with this identity, made if absent, for this process alone to write.

        `details` (program, machine, ...) go into the manifest; they may differ between the parts of a resumed run.
        """
        return RunWriter(Path(path).absolute(), identity, details)  # an environment may change the current folder

    @staticmethod
    def read(path: str | Path) -> RunFolder:
        """The run in that folder, packed with others or not."""
        path = zoo.located(path)
        if not (path / manifest.FILE).is_file() and not packs.holder(path):
            raise HeadraceError(f"{path} {_why_no_run(path)}")
        return RunFolder(path)

    @property
    def identity(self) -> dict[str, Any]:
        """What defines the run: agent, environment and rules, seed, steps, engine, form."""
        return self.manifest["identity"]

    @property
    def status(self) -> str:
        """`running`, `finished`, `interrupted`, `diverged` or `failed`."""
        return status_of(self.path, self.manifest)

    @property
    def run_hash(self) -> str:
        return manifest.identity_hash(self.identity)

    def require_sound(self) -> None:
        """HeadraceError where the run has finished and its tables were changed since."""
        if why := damage(self.path, self.manifest):
            raise HeadraceError(f"{self.path} is damaged: {why}")

    def episodes(self) -> Columns:
        """Every finished episode: `step`, `return` and `length`, as NumPy arrays."""
        return read_table(self._table(EPISODES), EPISODE_COLUMNS)

    def metrics(self) -> Columns:
        """What was logged every 1,000 steps, by column."""
        return read_table(self._table(METRICS))

    def speed(self) -> Columns:
        """What the clock said at the log points: `step`, `steps_per_s` and `seconds`."""
        return read_table(self._table(SPEED), SPEED_COLUMNS)

    def evaluations(self) -> Columns:
        """What frozen copies scored while the run was trained: returns as mean, spread and bounds, by step."""
        return read_table(self._table(EVALUATIONS), EVALUATED)

    def score(self) -> Score | None:
        """The mean of the last 50 logged returns, and of how many; None where no episode has finished yet.

        HeadraceError where the run has finished and its tables were changed since.
        """
        self.require_sound()
        return score(self.metrics())

    def latest(self) -> Checkpoint | None:
        """The newest good checkpoint; one that is damaged is passed over with a notice. Changes nothing."""
        for _ in range(10):  # a writer may remove a checkpoint between our listing it and our reading it
            with suppress(FileNotFoundError):
                return next((saved.checkpoint for path in self._listed() if (saved := self._load(path))), None)
        raise HeadraceError(f"the checkpoints of {self.path} change faster than they can be read")

    def digest(self, arrays: Mapping[str, np.ndarray]) -> str:
        """SHA-256 over the arrays and the episodes: equal for two runs only if they ended equal to the bit."""
        return checkpoints.digest(arrays, read_file(self._table(EPISODES)))

    def _table(self, name: str) -> Path:
        """Where a table is, with all of its rows in it."""
        return self.path / name

    def _listed(self) -> list[Path]:
        return checkpoints.newest_first(self.path / CHECKPOINTS)

    def _load(self, path: Path) -> Saved | None:
        try:
            return checkpoints.load(path, self.run_hash)
        except CheckpointDamaged as error:
            self.notices.append(f"checkpoint {path.name} passed over: {error}")
            return None
        except FileNotFoundError:
            raise
        except OSError as error:  # a disk or network that fails to answer does not make a checkpoint a bad one
            raise HeadraceError(f"cannot read {path}: {error.strerror}") from error


class RunWriter(RunFolder):
    """Writes a run. Call `resume` once before anything is appended; close it, or use it in a `with` statement.

    It is the writer only as long as it holds the run's lock: not once it is closed, and never in a child that was
    forked.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], details: Mapping[str, Any]) -> None:
        self._details = manifest.plain(manifest.checked(details))
        create(path, manifest.encode(manifest.new_manifest(identity, details)), (CHECKPOINTS,), TABLES)
        super().__init__(path)
        if differing := manifest.differences(identity, self.identity):
            raise RunConflict(f"{path} belongs to another run: {'; '.join(differing)}. Choose another folder.")
        self._lock = claim(path)
        try:
            self._take_over()
        except BaseException:
            self._lock.close()
            raise

    def _take_over(self) -> None:
        """Removes what the last writer may have left behind, once it is certain that there is no other writer."""
        self.manifest = manifest.load(self.path)
        with storage_errors(self.path):
            (self.path / CHECKPOINTS).mkdir(exist_ok=True)
            remove_temporaries(self.path)
            remove_temporaries(self.path / CHECKPOINTS)
        self._tables = {name: Table(self.path / name) for name in TABLES}
        if (self.path / EVALUATIONS).exists():
            self.keep_evaluations()

    def keep_evaluations(self) -> None:
        """Makes the table of evaluations, which few runs have, unless there is one."""
        if EVALUATIONS not in self._tables:
            self._tables[EVALUATIONS] = Table(self.path / EVALUATIONS)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except HeadraceError:
            if kind is None:  # otherwise the error that ended the run is the one to show
                raise

    def close(self) -> None:
        """Writes the rows held back and lets another process have the run."""
        try:
            self._settle()
        finally:
            self._lock.close()

    def _settle(self) -> None:
        """Writes the rows held back, if it is still the writer."""
        if not self._lock.closed:
            self.flush()

    def _table(self, name: str) -> Path:
        self._settle()
        return super()._table(name)

    def _require_lock(self) -> None:
        if self._lock.closed:
            raise HeadraceError(f"{self.path} is not open for writing here: it was closed, or opened before a fork")

    def intact(self) -> bool:
        """Whether the tables are still what this writer left."""
        return all(table.intact() for table in self._tables.values())

    def flush(self) -> None:
        self._require_lock()
        for table in self._tables.values():
            table.flush()

    def append_episodes(self, rows: Iterable[tuple[int, float, int]]) -> None:
        self._require_lock()
        for step, episode_return, length in rows:
            self._tables[EPISODES].append({"step": step, "return": float(episode_return), "length": length})

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        self._require_lock()
        self._tables[METRICS].append(row)

    def append_speed(self, step: int, steps_per_s: float, seconds: float) -> None:
        row = {"step": step, "steps_per_s": float(steps_per_s), "seconds": float(seconds)}
        self._require_lock()
        self._tables[SPEED].append(row)

    def append_evaluation(self, row: Mapping[str, Any]) -> None:
        self._require_lock()
        self._tables[EVALUATIONS].append(row)

    def set_status(self, status: str, **details: Any) -> None:
        """Records how the run stands, with anything else worth keeping in the manifest."""
        if status not in manifest.STATUSES:
            raise ValueError(f"status must be one of {manifest.STATUSES}, got {status!r}")
        end = None if status == "running" else manifest.now()
        self._rewrite({**self._lasting(), **manifest.checked(details), "status": status, "end": end})

    def record_break(self, step: int, why: str) -> None:
        """Records that the run goes on from `step` with a new episode, which one that never stopped would not."""
        before = [found for found in self.manifest.get("breaks", []) if found["step"] < step]
        self.set_status("running", exact=False, breaks=[*before, {"step": step, "why": why}])

    def finish(self, details: Mapping[str, Any]) -> None:
        """Makes every row durable, then records that the run is complete, and by which tables."""
        for change in self._sync().values():
            raise change
        vouched = {name: self._tables[name].extent for name in VOUCHED if name in self._tables}
        tables = {name: {"bytes": found.length, "sha256": found.checksum} for name, found in vouched.items()}
        self.set_status("finished", **details, tables=tables)

    def save_checkpoint(self, step: int, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> None:
        """Makes the run continuable from here; the checkpoint before this one is kept too, older ones are removed.

        Where somebody else changed a table, the checkpoint keeps the rows that are not in it; then TableChanged is
        raised.
        """
        changed = self._sync()
        tables = {name: table.extent for name, table in self._tables.items()}
        saved = Saved(Checkpoint(step, dict(arrays), dict(state)), tables)
        folder = self.path / CHECKPOINTS
        write_atomically(checkpoints.path_of(folder, step), *checkpoints.pieces(self.run_hash, saved))
        for old in self._listed()[KEPT_CHECKPOINTS:]:
            with storage_errors(old):
                os.unlink(old)
        for name, change in changed.items():
            raise TableChanged(f"{change}. The run stops, saved as of step {step:,}: {_way_back(name, tables[name])}")

    def keep_snapshot(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps what an analysis of representations over training will want of this step."""
        self._require_lock()
        path = snapshots.path_in(self.path, step)
        with storage_errors(path):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, snapshots.encode(step, arrays))

    def checkpoint_steps(self) -> set[int]:
        """The steps at which there is a good checkpoint."""
        return {saved.checkpoint.step for path in self._listed() if (saved := self._load(path))}

    def go_back_to(self, step: int) -> None:
        """Forgets every checkpoint after `step`, so that `resume` continues from there."""
        self._require_lock()
        for path in self._listed():
            if checkpoints.path_of(path.parent, step).name < path.name:
                with storage_errors(path):
                    os.unlink(path)

    def resume(self) -> Checkpoint | None:
        """The newest checkpoint that the run can continue from exactly, with the tables cut back to it.

        What cannot be used is renamed to *.damaged and named in `notices`. Without a usable checkpoint the tables are
        empty and the run starts anew.
        """
        self._require_lock()
        saved = self._newest_usable()
        extents = saved.tables if saved else {}
        for name in (SPEED, EVALUATIONS):
            if name in extents and not starts_with(self.path / name, *extents[name][:2]):
                self._begin_anew(name)
        for name, table in self._tables.items():
            extent = extents.get(name, Extent(0, ""))
            table.cut(whole_lines(table.path, extent.length))
            if table.length == extent.length:
                table.hold(extent.rest)
        if saved:
            self._record_resumption(saved.checkpoint.step)
        return saved.checkpoint if saved else None

    def _newest_usable(self) -> Saved | None:
        listed = self._listed()
        for path in listed:
            saved = self._load(path)
            if saved and self._tables_reach(path, saved):
                return saved
            with storage_errors(path):
                checkpoints.set_aside(path)
        if listed:
            self._start_anew()
        return None

    def _tables_reach(self, path: Path, saved: Saved) -> bool:
        """Whether the rows from before the checkpoint are all there. What the clock said is no part of a result."""
        wanting = [n for n in RESULTS if not starts_with(self.path / n, *saved.tables[n][:2])]
        if wanting:
            lost = " and ".join(wanting)
            self.notices.append(f"checkpoint {path.name} passed over: {lost} lost or changed rows from before it")
        return not wanting

    def _begin_anew(self, name: str) -> None:
        """What is not part of a result may be lost, but not without a notice."""
        self.notices.append(f"{name} was changed: it begins anew, and what is left of it is kept as {name}.damaged")
        with storage_errors(self.path / name), suppress(FileNotFoundError):
            checkpoints.set_aside(self.path / name)

    def _start_anew(self) -> None:
        self.notices.append("no checkpoint is usable: the run starts anew, and its old tables are kept as *.damaged")
        for table in self._tables.values():
            with storage_errors(table.path):
                checkpoints.set_aside(table.path)

    def _record_resumption(self, step: int) -> None:
        changed = {name: value for name, value in self._details.items() if self.manifest.get(name) != value}
        resumed = [*self.manifest.get("resumed", []), {"step": step, "time": manifest.now(), **changed}]
        self._rewrite({**self._lasting(), "status": "running", "end": None, "resumed": resumed})

    def _lasting(self) -> manifest.Manifest:
        """The manifest without the cause of a failure, which is over once the run is taken up again."""
        return {name: value for name, value in self.manifest.items() if name != "cause"}

    def _rewrite(self, facts: manifest.Manifest) -> None:
        self._require_lock()
        write_atomically(self.path / manifest.FILE, manifest.encode(facts))
        self.manifest = facts

    def _sync(self) -> dict[str, TableChanged]:
        """Makes the rows durable, but those of tables that somebody else changed."""
        self._require_lock()
        changed = {}
        for name, table in self._tables.items():
            try:
                table.sync()
            except TableChanged as error:
                changed[name] = error
        sync_directory(self.path)
        return changed


def _way_back(name: str, extent: Extent) -> str:
    """What to do about a table that somebody else changed."""
    if name not in RESULTS:
        return "the same command continues"
    whole = f"the {extent.length:,} bytes with SHA-256 {extent.checksum}"
    return f"put back {whole}, and the same command continues; without them it goes back to where the table is whole"


def _why_no_run(path: Path) -> str:
    if not path.exists():
        return "does not exist: there is no run to read; `headrace train` makes runs in the folder runs"
    below = sorted(found.parent.name for found in path.glob(f"*/{manifest.FILE}")) if path.is_dir() else []
    below += sorted(packs.load(path / packs.FILE)) if (path / packs.FILE).is_file() else []
    if below:
        return f"is not a run but holds some: {', '.join(below[:5])}{', ...' if len(below) > 5 else ''}"
    return f"is not a run: it has no {manifest.FILE}"
