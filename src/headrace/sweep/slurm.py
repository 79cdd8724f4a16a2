"""On a Slurm cluster: each run a task of a job array, submitted by submitit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headrace.errors import counted
from headrace.runs.files import storage_errors
from headrace.sweep.executor import NOTES, Ended, Event, Job, Options, Said, order
from headrace.sweep.remote import Cluster, Report
from headrace.sweep.slurm_queue import ARRAY, SlurmQueue, SlurmRun

REPORT_SECONDS = 1.0  # between two looks for reports
QUEUE_SECONDS = 10.0  # between two questions to Slurm


class Slurm(Cluster):
    """Submitted jobs go on when the sweep is killed; the next sweep finds them by the notes in `.sweep/slurm`."""

    queue_of = SlurmQueue

    def __init__(self, out: Path, options: Options) -> None:
        super().__init__(out.absolute(), options)
        self.notes = self.out / NOTES / "slurm" / "runs"  # a file each for the runs that Slurm has: the job's number
        self.queue = self.queue_of(self.out / NOTES / "slurm" / "jobs", options)
        self.queue.require()
        self._submitted: dict[str, Job] = {}  # by the job's number
        self._missed: set[str] = set()  # jobs that were not in the queue when we last asked
        self._looked_at = self._asked_at = 0.0

    def wait(self, seconds: float) -> list[Event]:
        events, self._untold = self._untold, []
        if self._waiting:
            events += self._submit()
        now = time.monotonic()
        if now - self._looked_at >= REPORT_SECONDS:
            self._looked_at = now
            events += self._reports()
        if now - self._asked_at >= (REPORT_SECONDS if self._stopping else QUEUE_SECONDS):
            self._asked_at = now
            events += self._ask()
        events += self._watch.news(self._submitted.values())
        if not events:
            time.sleep(seconds)
        return events

    def stop(self) -> None:
        super().stop()
        self._asked_at = 0.0

    def close(self) -> None:
        """Leaves running jobs to Slurm."""
        self.queue.close()
        super().close()

    def _submit(self) -> list[Event]:
        """Submits the jobs that Slurm does not have yet."""
        jobs, self._waiting = self._waiting, []
        noted = {job.runs[0].name: self._noted(job) for job in jobs}
        alive = self.queue.alive(filter(None, noted.values())) if any(noted.values()) else set()
        known = {number: job for job in jobs if (number := noted[job.runs[0].name]) in alive}
        self._submitted |= known
        fresh = [job for job in jobs if noted[job.runs[0].name] not in known]
        said: list[Event] = [Said(f"in Slurm's queue already: {counted(len(known), 'run')}")] if known else []
        parts = (fresh[start : start + ARRAY] for start in range(0, len(fresh), ARRAY))
        return [*said, *map(self._submit_array, parts)]

    def _submit_array(self, jobs: Sequence[Job]) -> Event:
        numbers = self.queue.submit([SlurmRun(order(job, self.out, self.options)) for job in jobs])
        with storage_errors(self.notes):
            self.notes.mkdir(parents=True, exist_ok=True)
            for job, number in zip(jobs, numbers, strict=True):
                self._note(job).write_text(number)
                self._submitted[number] = job
        return Said(f"gave {counted(len(jobs), 'run')} to Slurm as job {numbers[0].partition('_')[0]}")

    def _reports(self) -> list[Event]:
        found = [number for number in self.queue.reported() if number in self._submitted]
        return [event for number in found for event in self._reported(number)]

    def _reported(self, number: str) -> list[Event]:
        report = self.queue.report(number)
        if not isinstance(report, Report):
            name = self._submitted[number].runs[0].name
            return [self._ended(number, {name: report})]
        if not report.causes:
            self.queue.clean(number)
        return [*map(Said, report.notices), self._ended(number, report.causes)]

    def _ask(self) -> list[Event]:
        """Jobs that left the queue without a report. Asks twice, as a report may be late on shared storage."""
        if not self._submitted:
            return []
        if self._stopping:
            self.queue.ask_to_stop(list(self._submitted))
        gone = set(self._submitted) - self.queue.alive(self._submitted)
        lost, self._missed = gone if self._stopping else gone & self._missed, gone
        return [self._ended(number, {}, self.queue.how_it_ended(number)) for number in sorted(lost)]

    def _ended(self, number: str, causes: dict[str, str], lost: str = "") -> Ended:
        job = self._submitted.pop(number)
        self._watch.forget(job)
        with suppress(OSError):
            self._note(job).unlink()
        return Ended(job, causes, lost)

    def _note(self, job: Job) -> Path:
        return self.notes / job.runs[0].name

    def _noted(self, job: Job) -> str:
        with suppress(OSError):
            return self._note(job).read_text()
        return ""
