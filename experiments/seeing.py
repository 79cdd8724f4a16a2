"""Do agents with a guard learn where agents without one are blind? Short runs on Atari and Octax.

headrace sweep experiments/seeing.py::atari               three games, 500,000 steps (2M frames); one agent unguarded
headrace sweep experiments/seeing.py::octax --on fleet    three games, two seeds, 1M steps (4M frames)
"""

from headrace.sweep import grid
from headrace.training.run import Run

AGENTS = "strq,qrc,qrc+spr+orth,dqn"


def atari() -> list[Run]:
    guarded = grid(AGENTS, "atari/breakout,atari/pong,atari/freeway", seeds="0", steps=5e5)
    return guarded + grid("qrc+unguarded", "atari/breakout", seeds="0", steps=5e5)


def octax() -> list[Run]:
    return grid(AGENTS, "octax/filter,octax/deep,octax/ufo", seeds="0:2", steps=1e6)


def plan() -> list[Run]:
    return atari() + octax()
