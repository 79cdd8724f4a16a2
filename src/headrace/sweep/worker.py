"""The program of a worker process: reads jobs from standard input, says on standard output how they go.

One JSON object a line, both ways. A job is {"do", "runs", "out", "checkpoint_every"}; an answer is one of {"step",
"rate"}, {"notice"} and, at its end, {"ended": {run: cause}}. Whatever else is printed goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from headrace.errors import Diverged, HeadraceError
from headrace.run import Run, run_of

SAY_SECONDS = 0.5  # between two messages of progress

Order = dict[str, Any]


class Teller:
    """A run's progress, told to the process that gave the job."""

    def __init__(self, answers: IO[str], about: str = "") -> None:
        self._answers, self._about, self._told_at = answers, about, 0.0

    def tell(self, **message: Any) -> None:
        print(json.dumps(message), file=self._answers, flush=True)

    def say(self, what: str) -> None: ...

    def notice(self, what: str) -> None:
        self.tell(notice=f"{self._about}{what}")

    def metrics(self, means: dict[str, float]) -> None: ...

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        now = time.monotonic()
        if now - self._told_at >= SAY_SECONDS:
            self._told_at = now
            self.tell(step=step, rate=rate)

    def close(self) -> None: ...


def train_one(runs: list[Run], order: Order, teller: Teller) -> dict[str, str]:
    from headrace.training import Pace, train_run

    (run,) = runs
    try:
        train_run(run, order["out"], (), Pace(order["checkpoint_every"], 60.0), teller, draw=False)
    except Diverged:
        return {}  # its folder says so
    except Exception as error:
        return {run.name: cause_of(error)}
    return {}


def train_together(runs: list[Run], order: Order, teller: Teller) -> dict[str, str]:
    import jax

    from headrace.fleet import train_fleet

    if jax.default_backend() == "cpu":
        teller.notice("no accelerator was found: the fleet runs on the CPU")
    try:
        result = train_fleet(runs, order["out"], checkpoint_every=order["checkpoint_every"], progress=teller)
    except Exception as error:
        return {run.name: cause_of(error) for run in runs}
    return result.refused


def cause_of(error: Exception) -> str:
    """One line: what a user can act on, or else where in the program it happened."""
    if isinstance(error, HeadraceError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}, line {frame.lineno})"


DOES: dict[str, Callable[[list[Run], Order, Teller], dict[str, str]]] = {
    "one": train_one,
    "together": train_together,
}


def _listen(orders: queue.SimpleQueue[Order]) -> None:
    """Hands on what is read. When there is nothing more to read the sweep is over or dead, and so are we."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)


def main() -> None:
    if len(sys.argv) > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[1])})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()

    from headrace.programs import reuse_compiled_programs

    reuse_compiled_programs()
    while True:
        order = orders.get()
        runs = [run_of(identity) for identity in order["runs"]]
        teller = Teller(answers, f"{runs[0].name}: " if len(runs) == 1 else "")
        causes = DOES[order["do"]](runs, order, teller)
        teller.tell(ended=causes)


if __name__ == "__main__":
    main()
