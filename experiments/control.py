"""Continuous control: the actor-critic alone and with SPR, on four of MuJoCo's robots, three seeds, 1M steps.

headrace sweep experiments/control.py::first               ac alone: 12 runs
headrace sweep experiments/control.py --jobs 14            all 36 runs, the quickest robot first
headrace sweep experiments/control.py::ant                 one robot; one agent is ::ac, ::spr or ::orth2

As Stream-X has it: observations and rewards are scaled, time is one more number of an observation, lambda is 0.8, the
learning rates are 1 with kappa 2 (critic) and 3 (actor), the entropy's weight is 0.01, hidden layers have 128 units.
"""

from headrace.sweep import grid
from headrace.training.run import Run

ROBOTS = "gym/HalfCheetah-v5,gym/Hopper-v5,gym/Walker2d-v5,gym/Ant-v5"
AGENTS = "ac,ac+spr,ac+spr+orth2"


def _on(agents: str, robots: str = ROBOTS) -> list[Run]:
    return grid(agents, robots, seeds="0:3", steps=1e6, settings=("env.clock=Shown",))


def ac() -> list[Run]:
    return _on("ac")


def spr() -> list[Run]:
    return _on("ac+spr")


def orth2() -> list[Run]:
    return _on("ac+spr+orth2")


def ant() -> list[Run]:
    return _on(AGENTS, "gym/Ant-v5")


def half_cheetah() -> list[Run]:
    return _on(AGENTS, "gym/HalfCheetah-v5")


def hopper() -> list[Run]:
    return _on(AGENTS, "gym/Hopper-v5")


def walker() -> list[Run]:
    return _on(AGENTS, "gym/Walker2d-v5")


def first() -> list[Run]:
    return ac()


def plan() -> list[Run]:
    return half_cheetah() + hopper() + walker() + ant()
