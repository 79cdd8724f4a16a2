"""The paper's Octax table: nine variants on eight games, five seeds, 5M steps (20M frames). 360 runs.

headrace sweep experiments/octax_20m.py
headrace reproduce octax                  the same, and the report on it
"""

from headrace.reproduce.plans import OCTAX
from headrace.training.run import Run


def plan() -> list[Run]:
    return OCTAX.runs()
