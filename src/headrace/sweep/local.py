"""On this machine's cores: one worker process a core, pinned to it, one run at a time."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path

from headrace.run import Run
from headrace.sweep.executor import Job, Options, one_by_one, program_of
from headrace.sweep.worker import one_core
from headrace.sweep.workers import Workers


class Local(Workers):
    does = "one"

    def __init__(self, out: Path, options: Options) -> None:
        cores = available_cores()
        places = [cores[i % len(cores)] for i in range(options.jobs or len(cores))]
        super().__init__(out, options, places, one_core())

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        return one_by_one(runs)

    def program(self, job: Job) -> Hashable:
        return program_of(job.runs[0])


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
