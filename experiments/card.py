"""Whether a fleet on this machine's accelerator is the same runs alone on its CPU: the check that CI cannot make.

python experiments/card.py                          the nine variants, on three games and on all five of MinAtar
python experiments/card.py qrc released --games breakout freeway
python experiments/card.py qrc qrc+spr+orth --suite octax --games pong worm      the kernels of larger networks

Every stream takes the 1,000 steps of one block, by the program that trains, and so does the same run alone; of several
streams of a game the first is compared. Means of all metrics over these steps must agree to a hundredth. Where nothing
is wrong only rounding is between them: of 54 streams on an H200 the largest difference of any metric was 1.1e-3, the
median 7e-7.
"""

from __future__ import annotations

import argparse
import sys

import jax
import numpy as np

from headrace.agents import VARIANTS
from headrace.engines.jax.compiled import BUFFER, CompiledStream
from headrace.engines.jax.fleet import Fleet
from headrace.sweep import grid
from headrace.training.run import Run

THREE = ("breakout", "freeway", "space_invaders")
FIVE = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
STEPS, MOST = 1_000_000, 0.01
CANCELLING = ("cosine", "loss", "h")  # means of numbers of both signs: compared as numbers of about the size of one


def apart(metric: str, one: float, other: float) -> float:
    scale = 1.0 if any(word in metric.split("_") for word in CANCELLING) else abs(other)
    return abs(one - other) / scale if scale else abs(one - other)


def check(variant: str, suite: str, games: tuple[str, ...], seeds: int) -> bool:
    """Prints the largest difference of each stream that is looked at."""
    names = [f"{suite}/{game}" for game in games]
    runs = sorted(grid(variant, names, seeds=range(seeds), steps=STEPS), key=_game)
    fleet = Fleet([r.agent for r in runs], [r.env.compiled() for r in runs], [r.seed for r in runs], STEPS)
    fleet.begin()
    together = fleet.run(BUFFER).means()
    good = True
    for run, mean in zip(runs, together, strict=True):
        if run.seed > 0:
            continue
        with jax.default_device(jax.devices("cpu")[0]):
            alone = CompiledStream(run.agent, run.env.compiled(), seed=0, steps=STEPS)
            alone.begin()
            alone.run(BUFFER)
            wanted = {name: float(np.asarray(value)) for name, value in alone.report().items()}
        worst = max(wanted, key=lambda name: apart(name, mean[name], wanted[name]))
        difference = apart(worst, mean[worst], wanted[worst])
        good &= difference <= MOST
        print(f"{variant:16s} of {len(runs)} streams, {_game(run):14s} {worst:22s} {difference:.1e}", flush=True)
    return good


def _game(run: Run) -> str:
    return run.env.name.partition("/")[2]


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("variants", nargs="*", default=list(VARIANTS))
    words.add_argument("--suite", default="minatar", help="one with compiled games")
    words.add_argument("--games", nargs="+", help="instead of three of MinAtar's, and then all five")
    words.add_argument(
        "--streams", type=int, default=0, help="of the fleet, equally many of each game; else one of each"
    )
    said = words.parse_args()
    sets = [tuple(said.games)] if said.games else [THREE, FIVE]
    good = [
        check(variant, said.suite, games, said.streams // len(games) or 1)
        for variant in said.variants
        for games in sets
    ]
    print(f"{jax.devices()[0].device_kind}: {sum(good)} of {len(good)} fleets are the same runs alone")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
