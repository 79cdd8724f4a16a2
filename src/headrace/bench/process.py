"""The process of a benchmark: bound to one core, libraries held to one thread each, nothing else in it.

It measures speed, or the most memory that a training process holds, Python and all.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError

Task = Mapping[str, Any]
STEPS = {"minatar": 3000, "octax": 400, "atari": 200}  # enough for everything to be allocated


def in_own_process(task: Task) -> Any:
    """What the task gives; a user's mistake in it is raised here."""
    from headrace.sweep.worker import one_core
    from headrace.sweep.workers import available_cores

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
    from headrace.engines.jax.programs import reuse_compiled_programs

    reuse_compiled_programs()
    if task.pop("do") == "memory":
        return peak_rss_mb(**task)
    from headrace.bench.single import measure

    return measure(**task)


def peak_rss_mb(suite: str, game: str | None, variant: str, engine: str) -> float:
    """Trains a little, as `headrace train` does, and says how much memory this process has held at most."""
    from headrace.agents import agent_named
    from headrace.bench.playback import place_of
    from headrace.bench.single import Contender
    from headrace.training.single import train

    place = place_of(suite, game)
    if place.env is None:
        stream = Contender(engine, agent_named(variant), place).streams["update"]
        stream.run(STEPS[suite])
        stream.save()
    else:
        with tempfile.TemporaryDirectory() as out:
            train(variant, place.env, steps=STEPS[suite], engine=engine, out=out, checkpoint_every=1000)
    return _high_water_mb()


def _high_water_mb() -> float:
    """Of this program alone: what the system counts for a process includes the one it was started from."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 1024)


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
