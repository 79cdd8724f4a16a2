"""A second thread that prepares the next step while the environment takes its own."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from headrace.engines.fast.machine import STOPPED, ask, await_answer, serve

PATIENCE = 2_000_000  # looks at the flag before the thread goes to sleep: some milliseconds
STOP = -1


class Alone:
    """One thread: what is prepared is prepared when the environment has answered."""

    def __init__(self, prepare: np.ndarray, respond: np.ndarray) -> None:
        self.rows = np.concatenate([prepare, respond])

    def start(self) -> None:
        """The next step may be prepared."""

    def wait(self) -> None:
        """Until nothing is being prepared."""


class Overlapped:
    """A second thread prepares. It shares the memory, is never inside Python, and works only between `start` and the
    end of `wait`; nothing that it writes is read by anything else meanwhile, so the results are those of one thread."""

    def __init__(self, prepare: np.ndarray, respond: np.ndarray, *memory: np.ndarray) -> None:
        self.rows = respond
        self._flags, self._ticket, self._wake = np.zeros(16, np.int64), 0, threading.Event()
        thread = threading.Thread(
            target=_serve, args=(prepare, memory, self._flags, self._wake), name="headrace-prepare", daemon=True
        )
        thread.start()
        weakref.finalize(self, _stop, self._flags, self._wake)

    def start(self) -> None:
        self._ticket += 1
        ask(self._flags, self._ticket)
        self._wake.set()

    def wait(self) -> None:
        await_answer(self._flags)


def _serve(rows: np.ndarray, memory: tuple[Any, ...], flags: np.ndarray, wake: threading.Event) -> None:
    while serve(rows, *memory, flags, PATIENCE) != STOPPED:
        wake.wait()
        wake.clear()


def _stop(flags: np.ndarray, wake: threading.Event) -> None:
    ask(flags, STOP)
    wake.set()
