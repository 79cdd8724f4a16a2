"""Fuzzes the learner: `python -m tests.engines.learner.fuzz --seconds 600`. Needs clang.

Inputs stay below `.venv/fuzz` for the next time; one that it fails on is named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from headrace.agents import agent_named
from headrace.engines.learner.description import describe
from headrace.learner import SOURCES
from tests.engines.learner.hosts import WARNINGS
from tests.engines.learner.support import IMAGE, SMALL, VECTOR, WITH_BOXES, on, spec_of

KEPT = Path(__file__).parents[3] / ".venv" / "fuzz"
FLAGS = ("-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", "-DHR_FENCED")
MOST = 4096  # bytes of an input


def write_seeds(folder: Path) -> None:
    """Descriptions of real agents, each with some commands behind."""
    random = np.random.default_rng(0)
    for name, box in WITH_BOXES:
        for network in (IMAGE, VECTOR):
            agent, spec = on(agent_named(name), network), spec_of(SMALL[network], box=box)
            words = bytes(describe(agent, spec, 100)) + random.integers(0, 256, 1500, np.uint8).tobytes()
            (folder / f"{name}-{type(network).__name__}{'-box' * box}").write_bytes(words)


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=int, default=600)
    said = words.parse_args()
    (KEPT / "inputs").mkdir(parents=True, exist_ok=True)
    write_seeds(KEPT / "inputs")
    sources = [str(SOURCES / "learner.c"), str(Path(__file__).with_name("fuzz.c"))]
    program = str(KEPT / "fuzz")
    subprocess.run(["clang", *WARNINGS, *FLAGS, f"-I{SOURCES}", "-o", program, *sources, "-lm"], check=True)
    limits = [f"-max_total_time={said.seconds}", f"-max_len={MOST}", "-timeout=60", "-print_final_stats=1"]
    return subprocess.run([program, *limits, f"-artifact_prefix={KEPT}/", str(KEPT / "inputs")]).returncode


if __name__ == "__main__":
    sys.exit(main())
