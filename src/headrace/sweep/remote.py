"""Runs on other machines: trained there, watched from here through small files on shared storage."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from headrace.envs.gym import IMPORTS
from headrace.sweep.executor import LOCK, NOTES, Began, Ended, Event, Job, Moved, Options, one_by_one
from headrace.sweep.worker import Order, Reporter, one_core, train_one
from headrace.training.pace import stop_requests
from headrace.training.run import Run, run_of

RUNNING = "running"  # a file each for the runs that are being trained
SAY_SECONDS = 2.0
LOOK_SECONDS = 1.0


class Report(NamedTuple):
    """The outcome of a run on another machine."""

    causes: dict[str, str]
    notices: list[str]


class ProgressFile(Reporter):
    """Writes a run's progress to a small file; notices are kept for the report."""

    def __init__(self, asked: Callable[[], bool], path: Path) -> None:
        super().__init__(asked)
        self.notices: list[str] = []
        self._path, self._shown_at = path, 0.0

    def say(self, what: str) -> None:
        self.tell(0, 0.0)
        super().say(what)

    def tell(self, step: int, rate: float) -> None:
        now = time.monotonic()
        if step == 0 or now - self._shown_at >= SAY_SECONDS:
            self._shown_at = now
            with suppress(OSError):  # whoever watches waits; the run itself must not fail over this
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(json.dumps({"step": step, "rate": rate}))

    def notice(self, what: str) -> None:
        self.notices.append(what)

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def train_remotely(order: Order) -> Report:
    """Trains one run in this process until it is done, or asked to stop by SIGINT or SIGTERM."""
    os.environ.update({**one_core(), IMPORTS: order["imports"]})
    from headrace.engines.jax.programs import reuse_compiled_programs

    reuse_compiled_programs()
    out = Path(order["out"])
    runs = [run_of(identity) for identity in order["runs"]]
    name = runs[0].name
    if not (out / LOCK).exists():
        return Report({name: f"{out} on {socket.gethostname()} is not the sweep's: it must be on shared storage"}, [])
    with stop_requests() as asked:
        shown = ProgressFile(asked, out / NOTES / RUNNING / name)
        try:
            causes = train_one(runs, order, shown)
        finally:
            shown.close()
    return Report(causes, [f"{name}: {notice}" for notice in shown.notices])


class ProgressReader:
    """Reads those files: which jobs are running, and at which step."""

    def __init__(self, out: Path) -> None:
        self._folder = out / NOTES / RUNNING
        self._seen: dict[str, str] = {}
        self._looked_at = 0.0

    def news(self, jobs: Iterable[Job]) -> list[Event]:
        """Events of these jobs; none if asked again within a second."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return []
        self._looked_at = now
        with suppress(OSError):
            present = set(os.listdir(self._folder))
            return [event for job in jobs if job.runs[0].name in present for event in self._of(job)]
        return []

    def forget(self, job: Job) -> None:
        """Removes the file that a killed process has left behind."""
        self._seen.pop(job.runs[0].name, None)
        with suppress(OSError):
            (self._folder / job.runs[0].name).unlink()

    def _of(self, job: Job) -> list[Event]:
        name = job.runs[0].name
        try:
            text = (self._folder / name).read_text()
            told: dict[str, Any] = json.loads(text)
        except (OSError, ValueError):  # it is gone, or being written
            return []
        if self._seen.get(name) == text:
            return []
        news: list[Event] = [] if name in self._seen else [Began(job)]
        self._seen[name] = text
        return [*news, Moved(job, told["step"], told["rate"])] if told["step"] else news


class Cluster:
    """Base of the executors that train on other machines, one run a job; they watch them through those files."""

    def __init__(self, out: Path, options: Options) -> None:
        self.out, self.options = out, options
        self._watch = ProgressReader(out)
        self._waiting: list[Job] = []
        self._untold: list[Event] = []
        self._stopping = False

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        return one_by_one(runs)

    def add(self, job: Job) -> None:
        self._waiting.append(job)

    def stop(self) -> None:
        self._stopping = True
        self._untold += [Ended(job, {}) for job in self._waiting]
        self._waiting = []

    def close(self) -> None:
        """Removes empty folders of notes."""
        for folder in (RUNNING, "slurm/jobs", "slurm/runs", "slurm", "."):
            with suppress(OSError):
                (self.out / NOTES / folder).resolve().rmdir()
