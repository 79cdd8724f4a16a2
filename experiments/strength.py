"""How strong should SPR be? Plans of 1M-step MinAtar runs that share one compiled program each.

    python experiments/strength.py PLAN --out runs      one plan on this machine's accelerator (or CPU)
    python experiments/strength.py --list               the plans and how many runs each has

Plans differ in structure and therefore in program; within a plan only numbers differ, so all its runs form one fleet.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from headrace.envs.minatar import GAMES
from headrace.errors import HeadraceError
from headrace.fleet import train_fleet
from headrace.progress import for_terminal
from headrace.run import Run, make_run

STEPS = 1_000_000
SEEDS = range(3)


def grid(variant: str, settings: Sequence[Sequence[str]]) -> list[Run]:
    return [
        make_run(variant, f"minatar/{game}", seed=seed, steps=STEPS, settings=setting)
        for setting in settings
        for game in GAMES
        for seed in SEEDS
    ]


PLANS = {
    "qrc-lr": lambda: grid("qrc", [(f"td.lr={lr}",) for lr in (3e-5, 1e-4, 3e-4)]),
    "qrc+spr+orth-weight": lambda: grid("qrc+spr+orth", [(f"aux.weight={w}",) for w in (2, 0.4, 0.1)]),
    "qrc+spr-weight": lambda: grid("qrc+spr", [(f"aux.weight={w}",) for w in (2, 0.4, 0.1)]),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", nargs="?", choices=PLANS)
    parser.add_argument("--out", default="runs")
    parser.add_argument("--stop-after", type=float, help="seconds; everything is saved and the same command continues")
    parser.add_argument("--list", action="store_true")
    words = parser.parse_args()
    if words.list or words.plan is None:
        print("\n".join(f"{name:24} {len(make())} runs" for name, make in PLANS.items()))
        return 0
    try:
        result = train_fleet(PLANS[words.plan](), words.out, stop_after=words.stop_after, progress=for_terminal())
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 1
    print(f"finished {len(result.finished)}, interrupted {len(result.interrupted)}, diverged {result.diverged}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
