"""The ablations that MinAtar allows, at 1M steps and three seeds; each is compared with its row in `baselines`.

    headrace sweep experiments/ablations.py --on fleet               all of them
    headrace sweep experiments/ablations.py::horizon --on fleet      one

The paper's own (horizon, weight, tau and augmentation, replay, CURL) are of 40M Atari frames.
"""

from headrace.sweep import grid
from headrace.training.run import Run


def runs(variants: str, *settings: str) -> list[Run]:
    return grid(variants, "minatar/*", seeds="0:3", steps=1e6, settings=settings)


def baselines() -> list[Run]:
    return runs("dqn,dqn+spr,strq,strq+spr,strq+spr+orth,strq+spr+orth2,qrc,qrc+spr,qrc+spr+orth")


def horizon() -> list[Run]:
    """K: how many steps SPR predicts."""
    return runs("qrc+spr", "aux.objective.horizon=1|3|5|10")


def weight() -> list[Run]:
    """lambda_SPR."""
    return runs("qrc+spr,qrc+spr+orth", "aux.weight=0.5|1|2")


def tau() -> list[Run]:
    """The target network (tau = 0: the present one) and the augmentation, each with and without the other."""
    return runs("qrc+spr", "aux.objective.target=Online|Polyak(0.99)", "aux.objective.augment=ShiftAndIntensity|AsIs")


def shift() -> list[Run]:
    """How far images are shifted: 4 pixels are 40% of a MinAtar board."""
    return runs("qrc+spr", "aux.objective.augment.shift=0|1|2|4")


def replay() -> list[Run]:
    """The memory of streaming DQN."""
    return runs("dqn", "td.memory=Latest|Replay(5)")


def target() -> list[Run]:
    """DQN's target network, and QRC with one."""
    return runs("dqn,dqn+polyak,qrc,qrc+target")


def curl() -> list[Run]:
    return runs("qrc,qrc+curl")


def period() -> list[Run]:
    """SPR at every n-th step, or at greedy steps."""
    return runs("qrc+spr,qrc+spr+orth", "aux.gate=Always|Every(2)|Every(5)|Every(10)|Greedy")


def orth_beta() -> list[Run]:
    return runs("qrc+spr+orth", "aux.filter.beta=0.9|0.99|0.999")


def history() -> list[Run]:
    """The paper's three readings of what orth projects on; and orth on the RL stream."""
    return runs("qrc+spr+orth", "aux.filter.history=Raw|Projected|RawCurrent") + runs("qrc+orth_td")


def merging() -> list[Run]:
    """How the two updates combine."""
    mixed = runs("strq+spr,strq+spr+orth", "merge=Mix(0.5)|Mix(0.9)|Sum")
    return mixed + runs("strq+spr+orth2,strq+spr+orth2+average,qrc+spr+pcgrad")


def projection() -> list[Run]:
    return runs("qrc+spr", "aux.objective.projection=Shared|Separate")


def reduction() -> list[Run]:
    return runs("qrc+spr", "aux.objective.reduce=SumOverHorizon|MeanOverHorizon")


def released() -> list[Run]:
    """What the errors of the paper's released code are worth."""
    return runs("released,released-down,released-four,qrc+spr+orth")


def learning_rate() -> list[Run]:
    return runs("qrc,dqn", "td.lr=3e-5|1e-4|3e-4") + runs("strq", "td.lr=0.3|1|3")


def plan() -> list[Run]:
    parts = (
        baselines, horizon, weight, tau, shift, replay, target, curl, period, orth_beta, history, merging, projection,
        reduction, released, learning_rate,
    )  # fmt: skip
    return [run for part in parts for run in part()]
