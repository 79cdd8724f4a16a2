"""The jobs of `--on slurm` without Slurm: submitit's local executor calls them in processes of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import submitit

from headrace.sweep import slurm
from headrace.sweep.slurm_queue import SlurmQueue, preempt_signal, stop_signal


class LocalQueue(SlurmQueue):
    made: ClassVar[dict[str, Any]] = {}  # submitit's jobs by number
    asked: ClassVar[bool] = False  # whether jobs were asked to stop

    def require(self) -> None: ...

    def executor(self) -> Any:
        executor = submitit.LocalExecutor(self.folder, max_num_timeout=1_000_000)
        executor.update_parameters(timeout_min=60)
        queue = self

        class Noted:
            """Keeps the jobs that are made, to ask them how they are."""

            def batch(self) -> Any:
                return executor.batch()

            def submit(self, call: Any) -> Any:
                job = executor.submit(call)
                queue.unborn.append(job)
                return job

        return Noted()

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.unborn: list[Any] = []

    def submit(self, runs: Sequence[Any]) -> list[str]:
        numbers = super().submit(runs)
        self.made.update({job.job_id: job for job in self.unborn})
        self.unborn = []
        return numbers

    def alive(self, numbers: Iterable[str]) -> set[str]:
        return {number for number in numbers if number in self.made and not self.made[number].done()}

    def how_it_ended(self, number: str) -> str:
        return f"job {number} is gone"

    def ask_to_stop(self, numbers: Sequence[str]) -> None:
        for number in numbers:
            send(number, stop_signal())
        LocalQueue.asked = True


class Submitted(slurm.Slurm):
    queue_of = LocalQueue


def send(number: str, which: signal.Signals) -> None:
    """A signal to the process that trains, not to the one of submitit that looks after it."""
    with suppress(OSError):
        for child in Path(f"/proc/{number}/task/{number}/children").read_text().split():
            os.kill(int(child), which)


def preempt(number: str) -> None:
    send(number, preempt_signal())
