"""A run as a Slurm job: saved and requeued at its time limit or when it is preempted."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.runs.folder import RunFolder
from headrace.sweep.remote import Report, train_remotely
from headrace.sweep.status import saved_step
from headrace.sweep.worker import Order
from headrace.training.run import run_of

LINGER_SECONDS = 900.0  # longer than any grace between SIGTERM and SIGKILL
TOO_SHORT = "its time at Slurm ended before it got any further: ask for more with --time"


def preempt_signal() -> signal.Signals:
    """The signal that submitit has Slurm send before the time limit."""
    import submitit

    return signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"]


def stop_signal() -> signal.Signals:
    """The signal by which the sweep asks a job to save and end."""
    return signal.SIGUSR1 if preempt_signal() != signal.SIGUSR1 else signal.SIGUSR2


class SlurmRun:
    """The function that submitit calls to train one run. Three things can stop it:

    - the sweep: the run is saved and the job ends;
    - Slurm, before the time limit: the run is saved and the job is requeued;
    - SIGTERM, on preemption or cancellation: the run is saved, then the job waits to be killed, so that Slurm alone
      decides whether it is requeued.
    """

    def __init__(self, order: Order) -> None:
        self.order = order

    def __call__(self) -> Report:
        asked: list[int] = []
        queue_again = signal.getsignal(preempt_signal())  # submitit's
        for number in (preempt_signal(), stop_signal()):
            signal.signal(number, _noting(asked))
        (path,) = (Path(self.order["out"]) / run_of(identity).name for identity in self.order["runs"])
        before = saved_step(path)
        report = train_remotely(self.order)
        if report.causes or not _interrupted(path):
            return report
        if not asked:
            _linger(asked)
        if preempt_signal() in asked:
            return self._again(queue_again, report, saved_step(path) > before)
        return report

    def _again(self, queue_again: Any, report: Report, further: bool) -> Report:
        """Requeues the job, which ends this process; but not a run that makes no progress."""
        if not further:
            (name,) = (run_of(identity).name for identity in self.order["runs"])
            return report._replace(causes={name: TOO_SHORT})
        queue_again(int(preempt_signal()), None)
        return report

    def checkpoint(self) -> Any:
        """What is requeued: the same call, as the run's folder holds its progress."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def _noting(asked: list[int]) -> Callable[[int, Any], None]:
    def note(number: int, frame: Any) -> None:
        asked.append(number)
        signal.raise_signal(signal.SIGTERM)  # training stops at that, or will once it listens

    return note


def _interrupted(path: Path) -> bool:
    return path.exists() and RunFolder.read(path).status == "interrupted"


def _linger(asked: list[int]) -> None:
    until = time.monotonic() + LINGER_SECONDS
    while not asked and time.monotonic() < until:
        time.sleep(0.2)
