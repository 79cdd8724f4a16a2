"""The paper's Octax table: nine variants on eight games, five seeds, 5M steps (20M frames). 360 runs.

headrace sweep experiments/octax_20m.py
"""

from headrace.agents import VARIANTS
from headrace.envs.octax import PAPER_GAMES
from headrace.run import Run
from headrace.sweep import grid


def plan() -> list[Run]:
    return grid(list(VARIANTS), [f"octax/{game}" for game in PAPER_GAMES], seeds="0:5", steps=5e6)
