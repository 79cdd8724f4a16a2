"""A second thread that prepares the next step while the environment takes its own."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from headrace.engines.fast.machine import ANSWER, AWAIT, WIDTH, ask, await_answer, carry_out

PATIENCE = 2_000_000  # looks at the flag before the thread goes to sleep: some milliseconds
STOP = -1


class Alone:
    """One thread: what is prepared is prepared when the environment has answered."""

    def __init__(self, alone: np.ndarray) -> None:
        self.rows = alone

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
        first, last = _row(AWAIT, self._flags.ctypes.data, PATIENCE), _row(ANSWER, self._flags.ctypes.data)
        rows = np.concatenate([first, prepare, last])
        thread = threading.Thread(
            target=_serve, args=(rows, memory, self._flags, self._wake), name="headrace-prepare", daemon=True
        )
        thread.start()
        weakref.finalize(self, _stop, self._flags, self._wake)

    def start(self) -> None:
        self._ticket += 1
        ask(self._flags, self._ticket)
        self._wake.set()

    def wait(self) -> None:
        await_answer(self._flags)


def _row(*numbers: int) -> np.ndarray:
    row = np.zeros((1, WIDTH), np.int64)
    row[0, : len(numbers)] = numbers
    return row


def _serve(rows: np.ndarray, memory: tuple[Any, ...], flags: np.ndarray, wake: threading.Event) -> None:
    unchecked = np.zeros(0, np.int64)
    while flags[0] >= 0:
        carry_out(rows, *memory, unchecked)
        wake.wait()
        wake.clear()


def _stop(flags: np.ndarray, wake: threading.Event) -> None:
    ask(flags, STOP)
    wake.set()
