"""Worker processes that train job after job, so that compiled programs are reused."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.sweep.executor import Began, Ended, Event, Job, Moved, Options, Said, order
from headrace.sweep.processes import Program


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
        self._events: list[Event] = []  # that nobody has been told of

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
            worker.give(job, self._order(job))
            self._events.append(Began(job))

    def _order(self, job: Job) -> dict[str, Any]:
        return {"do": self.does, **order(job, self.out, self.options)}

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
