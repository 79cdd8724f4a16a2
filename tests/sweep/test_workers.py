"""A queue and its workers, asked to stop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.sweep import workers
from headrace.sweep.executor import Began, Ended, Job, Moved, Options
from tests.sweep.support import tiny

JOB = Job(tuple(tiny("dqn", "minatar/breakout", "0", 1000)))


class Scripted(workers.Worker):
    """Answers what it is told to, and has no process."""

    def __init__(self, environment: Any, core: int | None) -> None:
        self.job, self.program, self.moved = None, None, False
        self.asked = self.buried = False
        read, self.write = os.pipe()
        self.answers = os.fdopen(read, "rb")
        self._unread = b""

    def tell(self, message: Any) -> None: ...

    def ask_to_stop(self) -> None:
        self.asked = True

    def end(self, patience: float = 0.0) -> str:
        self.buried = True
        self.answers.close()
        os.close(self.write)
        return "buried"


class OneAtATime(workers.Workers):
    does = "one"

    def program(self, job: Job) -> str:
        return "the same"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OneAtATime:
    monkeypatch.setattr(workers, "Worker", Scripted)
    found = OneAtATime(tmp_path, Options(), [None], {})
    found.add(JOB)
    assert found.wait(0) == [Began(JOB)]
    return found


def test_a_worker_that_still_compiles_is_ended_at_once(queue: OneAtATime) -> None:
    worker = queue._workers[0]
    queue.stop()
    assert queue.wait(0) == [Ended(JOB, {})]
    assert (worker.asked, worker.buried) == (False, True)


def test_a_worker_that_has_taken_steps_is_asked_to_save_them(queue: OneAtATime) -> None:
    worker = queue._workers[0]
    os.write(worker.write, b'{"step": 10, "rate": 5.0}\n')
    assert queue.wait(1) == [Moved(JOB, 10, 5.0)]
    queue.stop()
    assert (worker.asked, worker.buried) == (True, False)
    os.write(worker.write, b'{"ended": {}}\n')
    assert queue.wait(1) == [Ended(JOB, {})]
    queue.close()
