"""The learner against the same agents as one writes them first: the ratio, both taking turns on one core.

python benchmarks/straightforward.py [--suites minatar,atari] [--variants strq,qrc,qrc+spr+orth] [--seconds 5]

Straightforward means: the definition under `jax.jit`, gradients by `jax.grad`, convolutions as JAX's own, one call of
the compiled step for each step of the environment, which lives outside. That is the reference engine without what was
done to it since (products instead of convolutions, the environment and many steps in one compiled program).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

from headrace.sweep.worker import one_core

os.environ.update(one_core())  # libraries read it when they are loaded
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])

import jax

from headrace.agents import agent_named
from headrace.bench.playback import Place, place_of
from headrace.definition import networks
from headrace.engines.base import HostStream
from headrace.engines.jax.engine import ReferenceEngine
from headrace.engines.learner.engine import LearnerEngine

TURNS, STEPS = 5, 1_000_000


def convolve(layer: networks.Layer, x: jax.Array, stride: tuple[int, int]) -> jax.Array:
    made = jax.lax.conv_general_dilated(
        x[None], layer["w"], stride, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return made[0] + layer["b"]


def rate(stream: HostStream, seconds: float) -> float:
    """Steps per second, from blocks that double until they last so long."""
    steps = 1
    while True:
        began = time.perf_counter()
        stream.run(steps)
        taken = time.perf_counter() - began
        if taken >= seconds:
            return steps / taken
        steps *= 2


def measured(place: Place, variant: str, seconds: float) -> tuple[list[float], list[float]]:
    """The rates of both, turn by turn."""
    agent = agent_named(variant)
    engines = [kind(agent, place.spec, seed=0, steps=STEPS) for kind in (LearnerEngine, ReferenceEngine)]
    streams = [HostStream(engine, place.host(), seed=0) for engine in engines]
    for stream in streams:
        stream.begin()
        stream.run(20)  # compiles, and fills SPR's window
    turns = [[rate(stream, seconds / TURNS) for stream in streams] for _ in range(TURNS)]
    return [fast for fast, _ in turns], [plain for _, plain in turns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default="minatar,atari")
    parser.add_argument("--variants", default="strq,qrc,qrc+spr+orth")
    parser.add_argument("--seconds", type=float, default=5.0)
    words = parser.parse_args()
    networks.convolve = convolve  # before anything is compiled
    print("| game | agent | fast, steps/s | straightforward, steps/s | ratio |\n|---|---|---|---|---|")
    for suite in words.suites.split(","):
        place = place_of(suite)
        print(*place.notes, sep="\n", end="\n" if place.notes else "", file=sys.stderr)
        for variant in words.variants.split(","):
            fast, plain = measured(place, variant, words.seconds)
            ratio = statistics.median(f / p for f, p in zip(fast, plain, strict=True))
            medians = f"{statistics.median(fast):,.0f} | {statistics.median(plain):,.0f}"
            print(f"| {suite}/{place.game} | `{variant}` | {medians} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
