"""The paper's Atari claim, asked of agents that see: six games, three seeds, 1M steps (4M frames); and Octax, shorter.

headrace sweep experiments/seeing.py::first --on fleet     what is wanted first: qrc, unguarded, with SPR, with orth
headrace sweep experiments/seeing.py::atari --on fleet     all agents, one fleet of 18 streams after the other
headrace sweep experiments/seeing.py::orth --on fleet      one agent; every function below is one
headrace sweep experiments/seeing.py::octax --on fleet     three games, two seeds, 1M steps (4M frames)

`--jobs 2` trains two agents at once, each with half of the card's memory and of the host's cores.
"""

from headrace.sweep import grid
from headrace.training.run import Run

GAMES = "atari/breakout,atari/pong,atari/boxing,atari/freeway,atari/qbert,atari/ms_pacman"
THREE = "atari/breakout,atari/pong,atari/freeway"  # also those of the clipped observations
STEPS = 1e6


def _on(agent: str, *settings: str, games: str = GAMES) -> list[Run]:
    return grid(agent, games, seeds="0:3", steps=STEPS, settings=settings)


def qrc() -> list[Run]:
    return _on("qrc")


def unguarded() -> list[Run]:
    """qrc as it was published: blind after its first step."""
    return _on("qrc+unguarded")


def spr() -> list[Run]:
    return _on("qrc+spr")


def orth() -> list[Run]:
    return _on("qrc+spr+orth")


def strq() -> list[Run]:
    return _on("strq")


def orth2() -> list[Run]:
    return _on("strq+spr+orth2")


def weak() -> list[Run]:
    """SPR at a twentieth of the text's weight."""
    return _on("qrc+spr+orth", "aux.weight=0.1")


def released_strength() -> list[Run]:
    """SPR as strong as in the released code, and otherwise right: the mean over the horizon, at every sixth step."""
    return _on("qrc+spr+orth", "aux.objective.reduce=MeanOverHorizon", "aux.gate=Every(6)")


def released() -> list[Run]:
    return _on("released")


def dqn() -> list[Run]:
    return _on("dqn")


def dqn_spr() -> list[Run]:
    return _on("dqn+spr")


def clipped() -> list[Run]:
    """Observations within 10 standard deviations, on three games."""
    return _on("qrc", "observations=Limited(10)", games=THREE)


def first() -> list[Run]:
    return qrc() + unguarded() + spr() + orth()


def atari() -> list[Run]:
    rest = strq, orth2, weak, released_strength, released, dqn, dqn_spr, clipped
    return first() + [run for part in rest for run in part()]


def octax() -> list[Run]:
    return grid("strq,qrc,qrc+spr+orth,dqn", "octax/filter,octax/deep,octax/ufo", seeds="0:2", steps=1e6)


def plan() -> list[Run]:
    return atari() + octax()
