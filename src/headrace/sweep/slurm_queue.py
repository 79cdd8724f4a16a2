"""Slurm's queue: submits runs and asks how they are. A run is requeued at its time limit or when it is preempted."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import IO, Any

from headrace.errors import HeadraceError, require_package
from headrace.runs.files import storage_errors
from headrace.runs.folder import RunFolder
from headrace.sweep.executor import Options
from headrace.sweep.remote import Report, train_remotely
from headrace.sweep.status import saved_step
from headrace.sweep.worker import Order
from headrace.training.run import run_of

LINGER_SECONDS = 900.0  # longer than any grace between SIGTERM and SIGKILL
TOO_SHORT = "its time at Slurm ended before it got any further: ask for more with --time"
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
ANSWER_SECONDS = 60.0
SIGNAL_SECONDS = 120  # before the end of its time: a run saves then and is queued again
EVER = 1_000_000  # times that a run may reach the end of its time
ARRAY = 1000  # tasks of one array: Slurm's usual limit
REMEDY = "Slurm does not answer here: call this on a machine of a Slurm cluster, or train on this one with --on local"
RESULT = "_0_result.pkl"  # how the names of submitit's reports end


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


class SlurmQueue:
    """Slurm by its commands; submitit's files are in a folder on shared storage."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder, self.options = folder, options

    def require(self) -> None:
        """An error where there is no Slurm."""
        require_package("submitit", "slurm", "--on slurm needs the submitit")
        missing = [command for command in COMMANDS if which(command) is None]
        if missing:
            raise HeadraceError(
                f"--on slurm needs Slurm's commands; not found: {', '.join(missing)}. "
                "Call it on a machine from which jobs are submitted."
            )

    def submit(self, runs: Sequence[SlurmRun]) -> list[str]:
        """The numbers of the jobs, one for each run."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with _errors_kept() as said:
            try:
                executor = self.executor()
                with executor.batch():
                    made = [executor.submit(run) for run in runs]
            except Exception as error:  # submitit's own, those of the commands, and of pickling
                self._clear_unsubmitted()
                remedy = "" if _queue() is not None else f". {REMEDY}"
                raise HeadraceError(f"Slurm did not take the jobs: {said() or error}{remedy}") from error
        return [job.job_id for job in made]

    def close(self) -> None:
        """Removes the scripts of the arrays once nothing is left of their jobs."""
        if not any(self.folder.glob("[0-9]*_[0-9]*")):
            for path in (*self.folder.glob("*_submission.sh"), *self.folder.glob(".submission_file_*")):
                path.unlink(missing_ok=True)

    def _clear_unsubmitted(self) -> None:
        for path in (*self.folder.glob(".submission_file_*"), *self.folder.glob(f"{'[0-9a-f]' * 32}.pkl")):
            with suppress(OSError):
                path.unlink()

    def executor(self) -> Any:
        """Of submitit."""
        import submitit

        asked = self.options.slurm
        executor = submitit.SlurmExecutor(self.folder, max_num_timeout=EVER)
        executor.update_parameters(
            job_name="headrace",
            time=asked.minutes,
            mem=f"{asked.gigabytes * 1024:.0f}M",
            cpus_per_task=1,
            signal_delay_s=min(SIGNAL_SECONDS, asked.minutes * 20),
            array_parallelism=self.options.jobs or ARRAY,
            additional_parameters={"requeue": True, **dict(option.split("=", 1) for option in asked.more)},
            **({"partition": asked.partition} if asked.partition else {}),
        )
        return executor

    def alive(self, numbers: Iterable[str]) -> set[str]:
        """Those jobs that wait or run; all of them while Slurm does not answer."""
        wanted = set(numbers)
        found = _queue()
        return wanted if found is None else wanted & set(found.split())

    def how_it_ended(self, number: str) -> str:
        """Of a job that has left the queue without a report."""
        facts = _answer("scontrol", "show", "job", "--oneliner", number) or ""
        states = [word.partition("=")[2] for word in facts.split() if word.startswith("JobState=")]
        said = ""
        with suppress(OSError), (self.folder / f"{number}_0_log.err").open("rb") as log:
            said = _last_line(log)[-200:]
        return f"Slurm ended its job {number}" + (f", {states[0].lower()}" if states else "") + (said and f": {said}")

    def ask_to_stop(self, numbers: Sequence[str]) -> None:
        """Jobs that wait leave the queue; those that run save and end."""
        _answer("scancel", "--state=PENDING", *numbers)
        _answer("scancel", f"--signal={stop_signal().name}", "--state=RUNNING", *numbers)

    def reported(self) -> set[str]:
        """The jobs that have left a report."""
        with suppress(OSError):
            return {name.removesuffix(RESULT) for name in os.listdir(self.folder) if name.endswith(RESULT)}
        return set()

    def report(self, number: str) -> Report | str:
        """What a job came to; text if its process failed outside of training."""
        from submitit.core.utils import pickle_load

        outcome, value = pickle_load(self.folder / f"{number}{RESULT}")
        return value if outcome == "success" else str(value).strip().splitlines()[-1]

    def clean(self, number: str) -> None:
        """Removes what a job left behind that ended well."""
        for path in self.folder.glob(f"{number}_*"):
            with suppress(OSError):
                path.unlink()


def _queue() -> str | None:
    """The numbers of the user's jobs that wait or run; None if Slurm did not answer."""
    return _answer("squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}")


def _answer(*command: str) -> str | None:
    """What a command of Slurm printed; None if it did not answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@contextmanager
def _errors_kept() -> Iterator[Callable[[], str]]:
    """Within, what is written to standard error, by commands too, is kept; the function gives the last line of it."""
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: _last_line(file)
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
