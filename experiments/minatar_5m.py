"""The paper's MinAtar table: nine variants on five games, five seeds, 5M steps. 225 runs.

headrace sweep experiments/minatar_5m.py --on fleet
headrace reproduce minatar --on fleet                  the same, and the report on it
"""

from headrace.reproduce.plans import MINATAR
from headrace.training.run import Run


def plan() -> list[Run]:
    return MINATAR.runs()
