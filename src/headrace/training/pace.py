"""The speed of a run, when it is saved, and requests to stop it."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LOG_EVERY = 1000  # steps between two rows of metrics


class Pace:
    """When to save: every so many steps where that is asked for, else every so many seconds."""

    def __init__(self, steps: int | None, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self._saved_at, self._saved_step = time.monotonic(), 0

    def due(self, step: int) -> bool:
        if self.steps is not None:
            return step // self.steps > self._saved_step // self.steps
        return time.monotonic() - self._saved_at >= self.seconds

    def saved(self, step: int) -> None:
        self._saved_at, self._saved_step = time.monotonic(), step

    def limit(self, step: int) -> int:
        """Steps until the next save that is fixed by its step."""
        return self.steps - step % self.steps if self.steps is not None else LOG_EVERY


class Speed:
    """Steps per second over the last blocks, without the time that compilation took; seconds of the whole run."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=12)
        self.seconds = 0.0
        self.rate = float("nan")

    def start(self, step: int, seconds_before: float) -> None:
        self._marks.append((time.monotonic(), step))
        self._began, self.seconds = time.monotonic() - seconds_before, seconds_before

    def reached(self, step: int) -> None:
        now = time.monotonic()
        if len(self._marks) == 1 and self.rate != self.rate:  # the first block compiled the program
            self._marks.clear()
            self.rate = 0.0
        else:
            then, since = self._marks[0]
            self.rate = (step - since) / max(now - then, 1e-9)
        self._marks.append((now, step))
        self.seconds = now - self._began

    def steps_in(self, seconds: float) -> int:
        """About how many steps fit into that time; few as long as nothing is known."""
        return max(10, min(LOG_EVERY, int(self.rate * seconds))) if self.rate > 0 else 10


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C, a request to terminate and a closed terminal are noted instead of killing; a second Ctrl-C kills.

    Where a closed terminal is to be ignored, as under nohup, it is.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: Any) -> None:
        if seen and number == signal.SIGINT:
            raise KeyboardInterrupt
        seen.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    old = {number: signal.signal(number, note) for number in numbers}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
