"""Do both engines learn alike? MinAtar Breakout, five seeds, 300,000 steps on each.

headrace sweep experiments/engines.py                        all of it: 30 runs
headrace sweep experiments/engines.py::qrc                   one variant

Their records are in results/engines, and `results.py` makes a table of them in docs/parity.md.
The learner plays the original game, the reference engine the one written in JAX, as `--engine` has them.
"""

from __future__ import annotations

from headrace.sweep import grid
from headrace.training.run import Run

ENGINES, STEPS = ("learner", "reference"), 300_000


def both(variant: str) -> list[Run]:
    return [
        run for engine in ENGINES for run in grid(variant, "minatar/breakout", seeds="0:5", steps=STEPS, engine=engine)
    ]


def strq() -> list[Run]:
    return both("strq")


def qrc() -> list[Run]:
    return both("qrc")


def qrc_spr_orth() -> list[Run]:
    return both("qrc+spr+orth")


def plan() -> list[Run]:
    return strq() + qrc() + qrc_spr_orth()
