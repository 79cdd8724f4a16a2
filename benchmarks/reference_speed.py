"""Steps per second of every variant on the reference engine, agent and compiled game together, one stream.

    taskset -c 0 env XLA_FLAGS=--xla_cpu_multi_thread_eigen=false python benchmarks/reference_speed.py

pins it to one core; without that JAX uses what it finds. Medians of blocks of 500 steps after compilation.
"""

from __future__ import annotations

import argparse
import time

from headrace.agents import VARIANTS
from headrace.engines.reference.compiled import CompiledStream
from headrace.envs.registry import make


def measure(variant: str, env: str, blocks: int) -> tuple[float, float]:
    """Seconds to compile, and steps per second."""
    stream = CompiledStream(VARIANTS[variant], make(env, "compiled"), seed=0, steps=1_000_000)
    began = time.perf_counter()
    stream.begin()
    stream.run(500)
    compiled = time.perf_counter() - began
    times = []
    for _ in range(blocks):
        start = time.perf_counter()
        stream.run(500)
        times.append(time.perf_counter() - start)
    return compiled, 500 / sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="minatar/breakout")
    parser.add_argument("--blocks", type=int, default=5)
    words = parser.parse_args()
    for variant in VARIANTS:
        compiled, rate = measure(variant, words.env, words.blocks)
        print(f"{variant:16} {rate:8,.0f} steps/s   (first 500 steps with compilation {compiled:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
