"""Whether training needs more memory the longer it lasts: what the process holds, and which objects are left over."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path
from typing import Any

from headrace.training.pace import Pace
from headrace.training.progress import Silent
from headrace.training.run import Run
from headrace.training.single import train_run


class Watched(Silent):
    """Notes how much memory the process holds each time the run has gone so many steps further."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.held: dict[int, float] = {}  # MB, by step

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        if step % self.every == 0:
            self.held[step] = resident_mb()


def resident_mb() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def held_while_training(run: Run, out: str | Path, every: int) -> dict[int, float]:
    """MB by step, over a whole run as `headrace train` makes it, files included.

    It saves ten times from one number to the next: what the first savings make the process keep is in the first number.
    """
    watched = Watched(every)
    train_run(run, out, (), Pace(every // 10, 60.0), watched, draw=False)
    return watched.held


def left_over(run: Run, warm_up: int, steps: int) -> int:
    """Bytes of Python objects and arrays that so many steps leave behind, once the stream has run for a while."""
    stream = run.stream()
    stream.begin()
    stream.run(warm_up)
    tracemalloc.start()
    try:
        stream.run(10)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(steps):
            stream.run(1)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
