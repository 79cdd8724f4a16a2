"""On this machine's cores: one worker process a core, pinned to it, one run at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Sequence
from pathlib import Path

from headrace.sweep.executor import Job, Options, one_by_one, program_of
from headrace.sweep.worker import one_core
from headrace.sweep.workers import Workers
from headrace.training.run import Run

CGROUP = Path("/sys/fs/cgroup")


class Local(Workers):
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
