"""The paper's two Atari tables: 26 games, five seeds. A step is four frames; the two budgets are separate runs.

headrace sweep experiments/atari.py::frames_40m --on slurm       nine variants, 10M steps: 1,170 runs
headrace sweep experiments/atari.py::frames_100m --on slurm      six variants, 25M steps: 780 runs
headrace reproduce atari --on slurm                              both, and the report on them
"""

from headrace.reproduce.plans import ATARI_40M, ATARI_100M
from headrace.training.run import Run


def frames_40m() -> list[Run]:
    return ATARI_40M.runs()


def frames_100m() -> list[Run]:
    return ATARI_100M.runs()


def plan() -> list[Run]:
    return frames_40m() + frames_100m()
