"""The Ray driver of a sweep, in a process of its own: Ray prints to standard output, and ends its process when the
cluster dies.

One JSON object a line, both ways. It says {"ready": cores} or {"refused": why}; then it reads {"number", "order"} for
each run and {"stop": true}, and says {"ended": number, "causes", "notices", "lost"}. It ends when its input does.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
import threading
import traceback
from typing import IO, Any

from headrace.sweep.remote import train_remotely
from headrace.sweep.worker import cause_of

LOOK_SECONDS = 0.2
KNOCK_SECONDS = 5.0
NONE_RUNS = "Could not find any running Ray instance"  # what Ray says at `auto` where there is none


def main() -> None:
    address, cores = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    try:
        found = _connect(address, cores)
    except Exception as error:
        _say(answers, refused=_why(error))
        return
    _say(answers, ready=found)
    Bridge(answers, orders).go()


def _listen(orders: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)


def _why(error: Exception) -> str:
    """Part of a sentence; Ray keeps what it was told by the cluster in the causes of its errors."""
    whole = "".join(traceback.format_exception(error))
    if "AuthenticationError" in whole:
        return "it asks for a token (set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or ~/.ray/auth_token)"
    if NONE_RUNS in whole:
        return "none is running"
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return first.partition(". ")[0].rstrip(".")


def _say(answers: IO[str], **message: Any) -> None:
    print(json.dumps(message), file=answers, flush=True)


def _connect(address: str, cores: int) -> float:
    """Joins the cluster, or starts one on this machine with so many cores; how many cores it has."""
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address:
        if address != "auto":
            _knock(address)
        ray.init(address=address, **quiet)
    else:
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    return ray.cluster_resources().get("CPU", 0.0)


def _knock(address: str) -> None:
    """Ray waits for minutes where nobody answers; a connection is refused at once or within a few seconds."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), KNOCK_SECONDS):
        pass


class Bridge:
    def __init__(self, answers: IO[str], orders: queue.SimpleQueue[dict[str, Any] | None]) -> None:
        import ray

        self.answers, self.orders = answers, orders
        # A run that is lost is given again by the sweep, which knows how often that may happen.
        self.task = ray.remote(num_cpus=1, max_retries=0)(train_remotely)
        self.numbers: dict[Any, int] = {}  # by the reference to the task's result

    def go(self) -> None:
        import ray

        while True:
            try:
                message = self.orders.get(timeout=0 if self.numbers else LOOK_SECONDS)
            except queue.Empty:
                self._look()
                continue
            if message is None:
                ray.shutdown()
                return
            if "stop" in message:
                for reference in self.numbers:
                    ray.cancel(reference)
            else:
                self.numbers[self.task.remote(message["order"])] = message["number"]

    def _look(self) -> None:
        import ray

        if self.numbers:
            ready, _ = ray.wait(list(self.numbers), num_returns=len(self.numbers), timeout=LOOK_SECONDS)
            for reference in ready:
                number = self.numbers.pop(reference)
                _say(self.answers, ended=number, **_outcome(reference))


def _outcome(reference: Any) -> dict[str, Any]:
    import ray

    try:
        report = ray.get(reference)
    except ray.exceptions.LocalRayletDiedError:  # without it no task can be given any more
        os._exit(1)
    except ray.exceptions.TaskCancelledError:  # it had not begun
        return {"causes": {}, "notices": [], "lost": "it was asked to stop"}
    except ray.exceptions.RayTaskError as error:  # what we call caught nothing of this: it is about the machine
        return {"causes": {"": cause_of(error)}, "notices": [], "lost": ""}
    except ray.exceptions.RayError as error:
        return {"causes": {}, "notices": [], "lost": _short(error)}
    return {"causes": report.causes, "notices": report.notices, "lost": ""}


def _short(error: Exception) -> str:
    words = {
        "WorkerCrashedError": "its process died",
        "NodeDiedError": "its node died",
        "OutOfMemoryError": "its node ran out of memory",
    }
    name = type(error).__name__
    return words.get(name, f"{name}: {str(error).strip().splitlines()[0]}")


if __name__ == "__main__":
    main()
