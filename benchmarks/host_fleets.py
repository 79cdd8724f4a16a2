"""Fleets of Atari (or other host environments) of several sizes: `headrace bench --on fleet` for each, and one table.

    python benchmarks/host_fleets.py [--streams 64,32] [--variants qrc,qrc+spr+orth] [--kernels 15] [--out FILE.json]

With `--kernels N` it also lists the N kernels of the accelerator that take the most of a half's step. Needs JAX, NumPy
and ale-py only (PYTHONPATH=src where headrace is not installed).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import jax
from timeline import events_in

from headrace.agents import agent_named
from headrace.bench.fleet import measure_fleet
from headrace.bench.playback import STEPS
from headrace.bench.text import fleet_text
from headrace.engines.jax.host_fleet import HostFleet
from headrace.engines.jax.programs import reuse_compiled_programs
from headrace.envs.registry import environment
from headrace.training.pool import Answer, Pool

WATCHED = 5  # steps of a half
WIDTH = 100  # characters of a kernel's name


def kernels(name: str, variant: str, streams: int) -> Counter[str]:
    """Microseconds of each kernel in a step of half of the fleet, one after the other."""
    fleet = HostFleet([agent_named(variant)] * streams, Pool([environment(name)] * streams), range(streams), STEPS)
    try:
        fleet.begin()
        fleet.run(3)
        half, shown = fleet.halves[0], fleet.games.answer(0)
        answer = Answer(shown.successor.copy(), shown.obs.copy(), shown.outcome.copy())
        jax.block_until_ready(half.state)
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for _ in range(WATCHED):
                    half.learn(answer)
                jax.block_until_ready(half.state)
            found: Counter[str] = Counter()
            often: Counter[str] = Counter()
            for event in events_in(Path(folder)):
                found[event.name] += event.took / WATCHED
                often[event.name] += 1
    finally:
        fleet.close()
    return Counter({f"{often[name] // WATCHED} x {name}": took for name, took in found.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="atari")
    parser.add_argument("--game", default="pong")
    parser.add_argument("--streams", default="64,32")
    parser.add_argument("--variants", default="qrc,qrc+spr+orth")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--kernels", type=int, default=0)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    reuse_compiled_programs()
    found = []
    sizes = [int(size) for size in words.streams.split(",")]
    for streams in sizes:
        for variant in words.variants.split(","):
            found.append(measure_fleet(words.suite, words.game, variant, streams, words.seconds))
            print(fleet_text(found[-1]), end="\n\n", flush=True)
            if words.out:
                words.out.write_text(json.dumps(found, indent=2) + "\n")
            if words.kernels and streams == sizes[0]:
                took = kernels(f"{words.suite}/{words.game}", variant, streams)
                print(f"{sum(took.values()):,.0f} microseconds of kernels in a step of one half, {len(took)} names:")
                for name, microseconds in took.most_common(words.kernels):
                    print(f"{microseconds:8.1f}  {name[:WIDTH]}")
                print(flush=True)
    print("| agent | streams | stream-steps/s | card alone | environments alone | card busy | workers busy |")
    print("|---" * 7 + "|")
    for one in found:
        print(
            f"| {one['variant']} | {one['streams']} | {one['stream_steps_per_s']:,.0f} "
            f"| {one['card_stream_steps_per_s']:,.0f} | {one['environments_steps_per_s']:,.0f} "
            f"| {one['card_busy']:.0%} | {one['environments_busy']:.0%} |"
        )


if __name__ == "__main__":
    sys.exit(main())
