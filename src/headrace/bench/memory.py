"""The most memory that a training process ever holds, Python and all: measured in a process of its own."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

from headrace.agents import agent_named
from headrace.bench.contender import Contender
from headrace.bench.suites import place_of

STEPS = {"minatar": 3000, "octax": 400, "atari": 200}  # enough for everything to be allocated


def peak_rss_mb(suite: str, game: str | None, variant: str, engine: str) -> float:
    """Trains a little, as `headrace train` does, and says how much memory this process has held at most."""
    place = place_of(suite, game)
    if place.env is None:
        contender = Contender(engine, agent_named(variant), place)
        contender.streams["update"].run(STEPS[suite])
        contender.streams["update"].save()
        return _high_water_mb()
    from headrace.engines.jax.programs import reuse_compiled_programs
    from headrace.training.single import train

    reuse_compiled_programs()
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
