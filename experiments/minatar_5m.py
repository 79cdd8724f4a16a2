"""The paper's MinAtar table: nine variants on five games, five seeds, 5M steps. 225 runs.

headrace sweep experiments/minatar_5m.py --on fleet
"""

from headrace.agents import VARIANTS
from headrace.run import Run
from headrace.sweep import grid


def plan() -> list[Run]:
    return grid(list(VARIANTS), "minatar/*", seeds="0:5", steps=5e6)
