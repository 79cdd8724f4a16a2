"""The paper's table of ablations: 26 Atari games, 40M frames (10M steps), five seeds; 260 to 390 runs a function.

headrace sweep experiments/atari_ablations.py --on slurm               all of them
headrace sweep experiments/atari_ablations.py::horizon --on slurm      one

Each function holds the paper's own setting too, which is the same run as in `paper.py::atari_40m`.
"""

from headrace.envs.atari import PAPER_GAMES
from headrace.sweep import grid
from headrace.training.run import Run


def runs(variants: str, *settings: str) -> list[Run]:
    return grid(variants, [f"atari/{game}" for game in PAPER_GAMES], seeds="0:5", steps=10e6, settings=settings)


def horizon() -> list[Run]:
    """K: how many steps SPR predicts."""
    return runs("qrc+spr", "aux.objective.horizon=1|3|5")


def weight() -> list[Run]:
    """lambda_SPR."""
    return runs("qrc+spr", "aux.weight=0.5|1|2")


def tau() -> list[Run]:
    """Augmentation with the present parameters as target, or neither augmentation nor those."""
    return runs("qrc+spr,qrc+spr+tau99")


def replay() -> list[Run]:
    """The memory of streaming DQN, beside SPR, which stores as many observations."""
    return runs("dqn,dqn+replay5,dqn+spr")


def curl() -> list[Run]:
    return runs("qrc+spr,qrc+curl")


def plan() -> list[Run]:
    return [run for part in (horizon, weight, tau, replay, curl) for run in part()]
