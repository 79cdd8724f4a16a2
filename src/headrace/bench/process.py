"""The process of a benchmark: bound to one core, libraries held to one thread each, nothing else in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from headrace.errors import HeadraceError

Task = Mapping[str, Any]


def in_own_process(task: Task) -> Any:
    """What the task gives; a user's mistake in it is raised here."""
    from headrace.sweep.local import available_cores
    from headrace.sweep.worker import one_core

    cores = available_cores()[-1:]
    command = [sys.executable, "-m", "headrace.bench.process", json.dumps({**task, "cores": cores})]
    environment = {**os.environ, **one_core()}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise HeadraceError(f"the process that measures ended with status {done.returncode}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise HeadraceError(answer["error"])
    return answer["found"]


def _do(task: dict[str, Any]) -> Any:
    what = task.pop("do")
    if what == "memory":
        from headrace.bench.memory import peak_rss_mb

        return peak_rss_mb(**task)
    from headrace.bench.single import measure
    from headrace.engines.jax.programs import reuse_compiled_programs

    reuse_compiled_programs()
    return measure(**task)


def main() -> None:
    task = json.loads(sys.argv[1])
    cores = task.pop("cores")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    try:
        answer = {"found": _do(task)}
    except HeadraceError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
