"""The worker process: reads jobs from standard input, reports on standard output.

One JSON object a line, both ways. A job is {"do", "runs", "out", "checkpoint_every"}; an answer is one of {"step",
"rate"}, {"notice"} and, at its end, {"ended": {run: cause}}. All other output goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from headrace.errors import Diverged, HeadraceError
from headrace.training.callbacks import callbacks_of
from headrace.training.evaluation import evaluations
from headrace.training.pace import Pace, stop_requests
from headrace.training.progress import Progress
from headrace.training.run import Run, run_of
from headrace.training.single import train_run

SAY_SECONDS = 0.5  # between two messages of progress
ONE_CORE = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"

Order = dict[str, Any]


def one_core() -> dict[str, str]:
    """The environment of a process that trains one run at a time on one core."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {**ONE_CORE, "XLA_FLAGS": flags if ONE_THREAD in flags else f"{flags} {ONE_THREAD}".strip()}


class Reporter(Progress):
    """Reports a run's progress to another process. `asked` says whether a stop was requested before training began."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked, self._told_at = asked, 0.0

    def tell(self, step: int, rate: float) -> None:
        raise NotImplementedError

    def say(self, what: str) -> None:
        """Called once training handles stop signals: repeats a request that came earlier."""
        if self._asked():
            signal.raise_signal(signal.SIGTERM)

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        now = time.monotonic()
        if now - self._told_at >= SAY_SECONDS:
            self._told_at = now
            self.tell(step, rate)


class Answers(Reporter):
    """Reports as lines on a worker's standard output."""

    def __init__(self, asked: Callable[[], bool], stream: IO[str], about: str = "") -> None:
        super().__init__(asked)
        self._stream, self._about = stream, about

    def tell(self, step: int, rate: float) -> None:
        self.answer(step=step, rate=rate)

    def notice(self, what: str) -> None:
        self.answer(notice=f"{self._about}{what}")

    def answer(self, **message: Any) -> None:
        print(json.dumps(message), file=self._stream, flush=True)


def train_one(runs: list[Run], order: Order, reporter: Progress) -> dict[str, str]:
    """Trains a run until it is done or stopped; returns the causes of failure by run."""
    (run,) = runs
    try:
        called = callbacks_of(order["callbacks"]) if order["callbacks"] else None
        wanted = evaluations(order["eval_every"], order["eval_episodes"])
        pace = Pace(order["checkpoint_every"], 60.0)
        train_run(run, order["out"], (), pace, reporter, callbacks=called, evaluated=wanted, draw=False)
    except Diverged:
        return {}  # its folder says so
    except Exception as error:
        return {run.name: cause_of(error)}
    return {}


def train_together(runs: list[Run], order: Order, reporter: Progress) -> dict[str, str]:
    from headrace.engines.jax.fleet import handicap
    from headrace.training.fleet import train_fleet

    if said := handicap():
        reporter.notice(said)
    try:
        given = {name: order[name] for name in ("checkpoint_every", "eval_every", "eval_episodes")}
        result = train_fleet(runs, order["out"], **given, progress=reporter)
    except Exception as error:
        return {run.name: cause_of(error) for run in runs}
    return {**result.refused, **result.failed}


def cause_of(error: Exception) -> str:
    """The error in one line; a bug with its place in the program."""
    if isinstance(error, HeadraceError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}, line {frame.lineno})"


DOES: dict[str, Callable[[list[Run], Order, Progress], dict[str, str]]] = {
    "one": train_one,
    "together": train_together,
}


def _listen(orders: queue.SimpleQueue[Order]) -> None:
    """Passes orders on. When the input ends the sweep is over or dead, and this process ends."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)


def main() -> None:
    if len(sys.argv) > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
    answers, here = os.fdopen(os.dup(1), "w"), Path.cwd()
    os.dup2(2, 1)
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()

    from headrace.engines.jax.programs import reuse_compiled_programs

    reuse_compiled_programs()
    with stop_requests() as asked:
        while True:
            order = orders.get()
            order["out"] = here / order["out"]  # an environment may have changed the current folder
            runs = [run_of(identity) for identity in order["runs"]]
            reporter = Answers(asked, answers, f"{runs[0].name}: " if order["do"] == "one" else "")
            reporter.answer(ended=DOES[order["do"]](runs, order, reporter))


if __name__ == "__main__":
    main()
