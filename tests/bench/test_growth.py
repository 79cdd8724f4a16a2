"""The longer a run lasts, the more steps it has made, and nothing else grows."""

from __future__ import annotations

import gc
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from headrace.training.pace import Pace
from headrace.training.progress import Progress
from headrace.training.run import Run, make_run
from headrace.training.single import train_run


class Watched(Progress):
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


@pytest.mark.parametrize("variant", ["strq", "qrc+spr+orth"])
def test_steps_leave_nothing_behind(variant: str) -> None:
    """A thousand steps, episodes' ends among them; a single float kept at each step would be 24,000 bytes."""
    run = make_run(variant, "minatar/breakout", steps=100_000, engine="learner")
    assert left_over(run, warm_up=500, steps=1000) < 4000


def test_what_is_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("strq", "minatar/breakout", steps=100_000, engine="learner")
    made, kept = type(run).stream, []

    def leaking(self):
        stream = made(self)
        take = stream.run
        stream.run = lambda n: kept.extend(i + 0.5 for i in range(n)) or take(n)
        return stream

    monkeypatch.setattr(type(run), "stream", leaking)
    assert left_over(run, warm_up=500, steps=1000) > 20_000


@pytest.mark.long
def test_a_million_steps_hold_no_more_memory_than_a_hundred_thousand(tmp_path: Path) -> None:
    run = make_run("qrc", "minatar/breakout", steps=1_000_000, engine="learner")
    held = held_while_training(run, tmp_path, every=100_000)
    print({step: round(mb, 1) for step, mb in held.items()})
    assert len(held) == 10
    assert held[1_000_000] - held[100_000] < 2
