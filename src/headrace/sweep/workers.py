"""Worker processes of this machine that train job after job, so that compiled programs are reused."""

from __future__ import annotations

import math
import os
import selectors
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from headrace.errors import BadSetting
from headrace.sweep.executor import Began, Ended, Event, Job, Moved, Options, Said, one_by_one, order, program_of
from headrace.sweep.processes import Program
from headrace.sweep.worker import one_core
from headrace.training.run import Run

CGROUP = Path("/sys/fs/cgroup")


class Worker(Program):
    """One worker process and its current job."""

    def __init__(self, environment: Mapping[str, str], cores: int | str | None) -> None:
        super().__init__("headrace.sweep.worker", [] if cores is None else [str(cores)], environment)
        self.job: Job | None = None
        self.program: Hashable = None
        self.moved = False  # whether it has taken steps of its job

    def give(self, job: Job, order: Mapping[str, Any]) -> None:
        self.job, self.moved = job, False
        self.tell(order)


class Workers:
    """Base of the executors here: a queue, and a worker for each entry of `cores` (such as "0,2"; None: not pinned)."""

    does: str  # which of `worker.DOES` trains a job

    def __init__(
        self, out: Path, options: Options, cores: Sequence[int | str | None], environment: Mapping[str, str]
    ) -> None:
        self.out, self.options = out, options
        self._cores, self._environment = cores, environment
        self._queue: dict[int, tuple[Job, Hashable]] = {}  # by number, in order
        self._added = 0
        self._workers: dict[int, Worker] = {}  # by place
        self._selector = selectors.DefaultSelector()
        self._events: list[Event] = []  # not reported yet

    def program(self, job: Job) -> Hashable:
        """Equal for jobs that share a compiled program."""
        raise NotImplementedError

    def add(self, job: Job) -> None:
        self._queue[self._added] = job, self.program(job)
        self._added += 1

    def wait(self, seconds: float) -> list[Event]:
        self._assign()
        for key, _ in self._selector.select(0 if self._events else seconds):
            self._events += self._heard(key.data)
        self._assign()
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        self._events += [Ended(job, {}) for job, _ in self._queue.values()]
        self._queue.clear()
        for place, worker in list(self._workers.items()):
            if worker.job is None:
                continue
            if worker.moved:
                worker.ask_to_stop()
            else:  # it compiles, which may take minutes and cannot be asked anything; there is nothing to save
                self._remove(place)
                self._events.append(Ended(worker.job, {}))

    def close(self) -> None:
        for place in list(self._workers):
            self._remove(place)
        self._selector.close()

    def _assign(self) -> None:
        """Gives each idle worker a job, and starts workers while jobs are queued."""
        for place, core in enumerate(self._cores):
            worker = self._workers.get(place)
            if not self._queue or (worker and worker.job):
                continue
            if worker is None:
                worker = self._workers[place] = Worker(self._environment, core)
                self._selector.register(worker.answers, selectors.EVENT_READ, place)
            number = self._best_for(worker)
            job, worker.program = self._queue.pop(number)
            worker.give(job, {"do": self.does, **order(job, self.out, self.options)})
            self._events.append(Began(job))

    def _best_for(self, worker: Worker) -> int:
        """A job whose program this worker has compiled; else one that no other worker has; else the first."""
        taken = {other.program for other in self._workers.values() if other is not worker}
        wishes: list[Callable[[Hashable], bool]] = [lambda p: p == worker.program, lambda p: p not in taken]
        for wish in wishes:
            for number, (_, program) in self._queue.items():
                if wish(program):
                    return number
        return next(iter(self._queue))

    def _heard(self, place: int) -> list[Event]:
        worker = self._workers[place]
        messages = worker.messages()
        if messages is None:
            job, how = worker.job, self._remove(place)
            return [Ended(job, {run.name: how for run in job.runs})] if job else []
        return [event for message in messages for event in _meaning(worker, message)]

    def _remove(self, place: int) -> str:
        worker = self._workers.pop(place)
        self._selector.unregister(worker.answers)
        return worker.end()


def _meaning(worker: Worker, message: dict[str, Any]) -> list[Event]:
    job = worker.job
    assert job is not None, f"a worker without a job said {message}"
    match message:
        case {"ended": causes}:
            worker.job = None
            return [Ended(job, causes)]
        case {"step": step, "rate": rate}:
            worker.moved = True
            return [Moved(job, step, rate)]
        case _:
            return [Said(message["notice"])]


class Local(Workers):
    """On this machine's cores: one worker a core, pinned to it, one run at a time."""

    does = "one"

    def __init__(self, out: Path, options: Options) -> None:
        cores = places()
        super().__init__(out, options, [cores[i % len(cores)] for i in range(options.jobs or len(cores))], one_core())

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        return one_by_one(runs)

    def program(self, job: Job) -> Hashable:
        return program_of(job.runs[0])


def places() -> list[int | None]:
    """The cores to pin workers to. In a container limited to a share of the machine, as many unpinned workers as that
    share allows: which cores others use is not known."""
    cores, allowed = available_cores(), allowed_cores(CGROUP)
    return [None] * max(1, int(allowed)) if allowed < len(cores) else [*cores]


def allowed_cores(folder: Path) -> float:
    """The container's CPU quota in cores, from Linux control groups version 2 or 1; infinite if there is none."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return float(quota) / float(period) if float(quota) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):  # "max", or there is no such thing here
        return math.inf


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


class Fleets(Workers):
    """Runs of one structure in one compiled program, on an accelerator if there is one, else on the CPU.

    Each fleet is in a process of its own: one at a time, or `jobs` at once, each with its share of the cores.
    """

    does = "together"

    def __init__(self, out: Path, options: Options) -> None:
        at_once = options.jobs or 1
        shared = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / at_once:.2f}"} if at_once > 1 else {}
        super().__init__(out, options, _shares(at_once), shared)

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """Fleets of nearly equal size, cut from the whole plan: a restarted sweep has the same fleets."""
        groups: dict[Hashable, list[Run]] = defaultdict(list)
        for run in runs:
            if run.engine != "reference":
                raise BadSetting(
                    f"--on fleet has the reference engine, {run.name} has engine {run.engine}: leave out --engine and "
                    "--form, or choose --on local"
                )
            groups[_kind(run)].append(run)
        return [Job(tuple(part)) for group in groups.values() for part in _cut(group, self.options.streams)]

    def program(self, job: Job) -> Hashable:
        return _kind(job.runs[0]), len(job.runs)


def _shares(fleets: int) -> list[str | None]:
    """The cores of each fleet; None where they need not, or cannot, be shared out."""
    cores = [str(core) for core in available_cores()]
    if not 1 < fleets <= len(cores):
        return [None] * fleets
    return [",".join(cores[i::fleets]) for i in range(fleets)]


def _kind(run: Run) -> Hashable:
    """Equal for runs that can share a fleet: agents of one structure, equal steps, games of one suite in one form.
    Frames of Gymnasium's environments differ in shape, so each environment has a fleet of its own."""
    structure, *_ = program_of(run)
    suite = run.env.name.partition("/")[0]
    return structure, run.steps, run.env.name if suite == "gym" else suite, run.env.rules, run.form


def _cut(runs: Sequence[Run], most: int) -> list[Sequence[Run]]:
    count = -(-len(runs) // most)
    bounds = [round(i * len(runs) / count) for i in range(count + 1)]
    return [runs[start:end] for start, end in pairwise(bounds)]
