"""The paper's tables, a function each. A step is one decision; Atari and Octax have four frames a step.

headrace sweep experiments/paper.py::minatar --on fleet       nine variants, five games, five seeds, 5M steps: 225 runs
headrace sweep experiments/paper.py::octax                    nine variants, eight games, five seeds, 5M steps: 360 runs
headrace sweep experiments/paper.py::atari_40m --on slurm     nine variants, 26 games, five seeds, 10M steps: 1,170 runs
headrace sweep experiments/paper.py::atari_100m --on slurm    six variants, 26 games, five seeds, 25M steps: 780 runs

`headrace reproduce minatar|octax|atari` trains the same runs and reports on them.
"""

from headrace.reproduce.plans import ATARI_40M, ATARI_100M, MINATAR, OCTAX
from headrace.training.run import Run

minatar, octax, atari_40m, atari_100m = MINATAR.runs, OCTAX.runs, ATARI_40M.runs, ATARI_100M.runs


def plan() -> list[Run]:
    return [run for table in (minatar, octax, atari_40m, atari_100m) for run in table()]
