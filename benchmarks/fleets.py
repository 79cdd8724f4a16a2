"""Fleets of several sizes on this machine's accelerator: `headrace bench --on fleet` for each, and one table.

    python benchmarks/fleets.py [--streams 25,45,256] [--variants qrc,qrc+spr+orth] [--seconds 5] [--out FILE.json]

Needs JAX and NumPy only (PYTHONPATH=src where headrace is not installed).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from headrace.bench.fleet import measure_fleet
from headrace.bench.text import fleet_text
from headrace.engines.jax.programs import reuse_compiled_programs

HEAD = (
    "| agent | streams | microseconds a step | stream-steps/s | kernels | GB/s of state | of the copy's | compile s |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="minatar")
    parser.add_argument("--game", help="instead of all games of the suite")
    parser.add_argument("--streams", default="5,25,45,256")
    parser.add_argument("--variants", default="qrc,qrc+spr+orth")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    reuse_compiled_programs()
    found = []
    for variant in words.variants.split(","):
        for streams in map(int, words.streams.split(",")):
            found.append(measure_fleet(words.suite, words.game, variant, streams, words.seconds))
            print(fleet_text(found[-1]), end="\n\n", flush=True)
            if words.out:
                words.out.write_text(json.dumps(found, indent=2) + "\n")
    print(HEAD, "|---" * 8 + "|", sep="\n")
    for one in found:
        kernels = "-" if one["kernels_per_step"] is None else f"{one['kernels_per_step']:.0f}"
        print(
            f"| {one['variant']} | {one['streams']} | {one['microseconds_per_step']:,.0f} "
            f"| {one['stream_steps_per_s']:,.0f} | {kernels} | {one['gbytes_per_s']:,.0f} "
            f"| {one['bandwidth_fraction']:.0%} | {one['compile_s']:.0f} |"
        )


if __name__ == "__main__":
    main()
