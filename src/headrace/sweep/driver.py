"""Trains a plan: runs what is missing, retries what failed, can be stopped at any time."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from headrace.agents import module_shapes
from headrace.errors import BadSetting, HeadraceError
from headrace.runs.files import storage_errors
from headrace.runs.folder import RunFolder
from headrace.runs.lock import claim
from headrace.sweep.display import Display
from headrace.sweep.executor import (
    LOCK,
    Began,
    Ended,
    Event,
    Executor,
    Job,
    Moved,
    Options,
    Said,
    SlurmOptions,
    executor,
)
from headrace.sweep.status import Standing, resolved, saved_step, standing
from headrace.training.callbacks import callbacks_of
from headrace.training.pace import stop_requests
from headrace.training.run import Run, require_engine, seconds, whole

ATTEMPTS = 3  # of a run that fails: the first, and twice again
LOOK_SECONDS = 0.2
HELD_SECONDS = 2.0  # between two looks at a run that another process holds
TOGETHER_SECONDS = 60.0  # from the beginning, in which runs that belong together wait for one that is held


class Swept(NamedTuple):
    """How a sweep ended."""

    standings: list[Standing]  # in the order of the plan
    interrupted: bool


def sweep(
    runs: Iterable[Run],
    out: str | Path = "runs",
    *,
    on: str = "local",
    jobs: float | None = None,
    streams: float = 256,
    checkpoint_every: float | None = None,
    address: str = "",
    slurm: SlurmOptions | None = None,
    stop_after: float | None = None,
    eval_every: float | None = None,
    eval_episodes: float = 10,
    callbacks: str = "",
    stop_when: Callable[[], bool] | None = None,
    display: Display | None = None,
) -> Swept:
    """Trains the unfinished runs of a plan. The same call continues after any interruption.

    `stop_after` (seconds) ends the call early, with everything saved. `callbacks` is a module that has functions named
    `on_step`, `on_episode` or `on_log`; a run that one of them stops is left so until the next call.
    """
    plan, folder, shown = resolved(runs, on, out), Path(out), display or Display()
    if not plan:
        raise BadSetting("an empty plan: there is nothing to train")
    options = Options(
        _whole("jobs", jobs),
        whole("streams", streams, 1),
        _whole("checkpoint_every", checkpoint_every),
        address,
        slurm or SlurmOptions(),
        _whole("eval_every", eval_every),
        whole("eval_episodes", eval_episodes, 1),
        callbacks,
    )
    if callbacks:
        if on == "fleet":
            raise BadSetting("callbacks are called for runs that are trained one by one: leave out --on fleet")
        callbacks_of(callbacks)
    limit = float("inf") if stop_after is None else seconds("stop_after", stop_after)
    with _left_as_found(folder), closing(executor(on, folder, options)) as place:
        _require_able(run for run in plan if standing(run, folder).state != "done")
        divided = place.jobs(plan)
        for notice in dict.fromkeys(run.notice for run in plan if run.notice):
            shown.notice(notice)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with claim(folder, LOCK, "sweeping into"):
            return _Sweep(plan, folder, place, shown, limit, stop_when or (lambda: False)).go(divided)


@contextmanager
def _left_as_found(out: Path) -> Iterator[None]:
    """Removes the folders and the lock that were made for a sweep that fails before any run has begun."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    before = _names(out)
    try:
        yield
    except BaseException:
        if _names(out) - before == {LOCK}:
            with suppress(HeadraceError, OSError), claim(out, LOCK, "sweeping into"):
                (out / LOCK).unlink()
        with suppress(OSError):  # one that is not empty
            for folder in made:
                folder.rmdir()
        raise


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()


def _whole(what: str, value: float | None) -> int | None:
    return None if value is None else whole(what, value, 1)


def _require_able(runs: Iterable[Run]) -> None:
    """Fail early, before anything is written, if an engine or environment is missing or a network does not fit."""
    for run in {(run.engine, run.agent, run.env, run.form): run for run in runs}.values():
        if run.form == "compiled":
            require_engine(run.engine, run.notice)
            spec = run.env.compiled().spec
        else:
            spec = run.env.host().spec
            require_engine(run.engine, run.notice)
        module_shapes(run.agent, spec.observation_shape, spec.n_actions, spec.box)


class _Sweep:
    def __init__(
        self,
        plan: Sequence[Run],
        out: Path,
        place: Executor,
        display: Display,
        limit: float,
        stop_when: Callable[[], bool],
    ) -> None:
        self.stop_when = stop_when
        self.out, self.place, self.display = out, place, display
        self.until = time.monotonic() + limit
        self.board: dict[str, Standing] = {run.name: standing(run, out) for run in plan}
        self.failures: Counter[str] = Counter()
        self.stopped: set[str] = set()  # by a callback
        self.saved: dict[str, int] = {}  # the step at which each run was last submitted
        self.held: list[Job] = []  # jobs with runs that other processes are training
        self.looked_at = self.began_at = time.monotonic()
        self.open = 0  # jobs that were added and have not ended
        self.stopping = False

    def go(self, jobs: Sequence[Job]) -> Swept:
        try:
            with stop_requests() as stopped:
                for job in jobs:
                    self._offer(job)
                while self.open or (self.held and not self.stopping):
                    self._go_on(stopped)
        finally:
            self.display.close()
        return Swept(list(self.board.values()), self.stopping)

    def _go_on(self, stopped: Callable[[], bool]) -> None:
        for event in self.place.wait(LOOK_SECONDS):
            self._take(event)
        if self.held and not self.stopping and time.monotonic() - self.looked_at >= HELD_SECONDS:
            self._look_again()
        if not self.stopping and (stopped() or time.monotonic() >= self.until):
            self.display.notice("saving; the same command continues")
            self._stop()
        if not self.stopping and self.stop_when():
            self._stop()
        self.display.show(list(self.board.values()))

    def _stop(self) -> None:
        self.stopping = True
        self.place.stop()

    def _offer(self, job: Job) -> None:
        """Submits the unfinished runs of a job. A diverged run keeps its row of a fleet, as others depend on it."""
        if self._keep_back(job):
            return
        wanted, able = [], 0
        for run in job.runs:
            state = self.board[run.name].state
            if state == "diverged":
                wanted.append(run)
            elif run.name in self.stopped:
                continue
            elif state not in ("done", "running") and self.failures[run.name] < ATTEMPTS:
                self.saved[run.name] = saved_step(self.out / run.name)
                wanted.append(run)
                able += 1
        if able:
            self.place.add(Job(tuple(wanted)))
            self.open += 1

    def _keep_back(self, job: Job) -> bool:
        """Whether the whole job has to wait for runs that other processes hold; those are looked at again later.

        The workers of a sweep that was killed a moment ago may still hold their runs, and a fleet is to be trained as
        the same fleet again.
        """
        held = [run for run in job.runs if self.board[run.name].state == "running"]
        if held and len(job.runs) > 1 and time.monotonic() - self.began_at < TOGETHER_SECONDS:
            self.held.append(job)
            return True
        self.held += [Job((run,)) for run in held]
        return False

    def _look_again(self) -> None:
        """Submits runs that another process held and has left unfinished."""
        self.looked_at = time.monotonic()
        held, self.held = self.held, []
        for job in held:
            for run in job.runs:
                self.board[run.name] = standing(run, self.out)
            self._offer(job)

    def _take(self, event: Event) -> None:
        match event:
            case Said(text):
                self.display.notice(text)
            case Began(job):
                self._note(job, state="running", rate=float("nan"))
            case Moved(job, step, rate):
                self._note(job, step=step, rate=rate)
            case Ended():
                self.open -= 1
                self._end(event)

    def _note(self, job: Job, **facts: Any) -> None:
        for run in job.runs:
            if self.board[run.name].state not in ("done", "diverged"):
                self.board[run.name] = self.board[run.name]._replace(**facts)

    def _end(self, ended: Ended) -> None:
        for run in ended.job.runs:
            now = self.board[run.name] = standing(run, self.out)
            if now.state == "left" and (why := _stopped_by_callback(now.path)):
                self.stopped.add(run.name)
                self.display.notice(f"{run.name} is saved and stopped: {why}")
            elif now.state in ("left", "failed") and not self.stopping:
                if ended.lost and saved_step(now.path) > self.saved[run.name]:
                    self.display.notice(
                        f"{run.name} goes on elsewhere from step {saved_step(now.path):,}: {ended.lost}"
                    )
                else:
                    self._failed(run, ended.causes.get(run.name) or ended.lost or now.cause or "it was asked to stop")
        if not self.stopping:
            self._offer(ended.job)

    def _failed(self, run: Run, cause: str) -> None:
        self.failures[run.name] += 1
        final = self.failures[run.name] >= ATTEMPTS
        self.board[run.name] = self.board[run.name]._replace(state="failed", cause=cause)
        self.display.notice(f"{run.name} failed{' for good' if final else ', it is tried again'}: {cause}")
        if final:
            self._record(run, "failed", cause=cause)

    def _record(self, run: Run, status: str, **details: Any) -> None:
        """Records a run's status in its folder, for a worker that was killed."""
        with suppress(HeadraceError):
            if (self.out / run.name).is_dir():
                with RunFolder.open(self.out / run.name, run.identity(), {}) as folder:
                    folder.set_status(status, **details)


def _stopped_by_callback(folder: Path) -> str:
    """Which callback stopped the run, in words; empty if none did."""
    with suppress(HeadraceError):
        found = RunFolder.read(folder)
        if found.status == "interrupted":
            return found.manifest.get("cause", "")
    return ""
