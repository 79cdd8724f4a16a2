"""The paper's two Atari tables: 26 games, five seeds. A step is four frames; the two budgets are separate runs.

headrace sweep experiments/atari.py::frames_40m --on slurm       nine variants, 10M steps: 1,170 runs
headrace sweep experiments/atari.py::frames_100m --on slurm      six variants, 25M steps: 780 runs
"""

from collections.abc import Sequence

from headrace.agents import VARIANTS
from headrace.envs.atari import PAPER_GAMES
from headrace.run import Run
from headrace.sweep import grid

LONGER = ("dqn", "dqn+spr", "qrc", "qrc+spr+orth", "strq", "strq+spr+orth2")  # what the paper ran for 100M frames


def runs(variants: str | Sequence[str], steps: float, *settings: str) -> list[Run]:
    return grid(variants, [f"atari/{game}" for game in PAPER_GAMES], seeds="0:5", steps=steps, settings=settings)


def frames_40m() -> list[Run]:
    return runs(list(VARIANTS), 10e6)


def frames_100m() -> list[Run]:
    return runs(LONGER, 25e6)


def plan() -> list[Run]:
    return frames_40m() + frames_100m()
