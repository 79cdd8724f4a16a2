"""Which reading of the paper? Its text leaves some things open; 1M steps of MinAtar, three seeds, one function each.

    headrace sweep experiments/reading.py --on fleet               all of them
    headrace sweep experiments/reading.py::weight --on fleet       one

Every function holds the default reading too, so that each can be judged by itself; a run is in the plan once.
"""

from headrace.run import Run
from headrace.sweep import grid

SPR = "qrc+spr,qrc+spr+orth"


def runs(variants: str, *settings: str) -> list[Run]:
    return grid(variants, "minatar/*", seeds="0:3", steps=1e6, settings=settings)


def history() -> list[Run]:
    """What orth projects on: raw gradients (the appendix), projected ones (Algorithm 1), the present one included."""
    return runs("qrc+spr") + runs("qrc+spr+orth", "aux.filter.history=Raw|Projected|RawCurrent")


def augmentation() -> list[Run]:
    """Shifts of 0, 1 and 4 pixels with the present parameters as target; a slow target without augmentation."""
    shifted = runs(SPR, "aux.objective.augment.shift=0|1|4")
    return shifted + runs(SPR, "aux.objective.target=Polyak(0.99)", "aux.objective.augment=AsIs")


def reduction() -> list[Run]:
    """The loss is the sum over the predicted steps, or their mean."""
    return runs(SPR, "aux.objective.reduce=SumOverHorizon|MeanOverHorizon")


def period() -> list[Run]:
    """SPR at every step, at every sixth, or at greedy steps only."""
    return runs(SPR, "aux.gate=Always|Every(6)|Greedy")


def weight() -> list[Run]:
    """lambda_SPR, from the text's strength down to about that of the released code."""
    return runs(SPR, "aux.weight=2|0.4|0.1|0.02")


def projection() -> list[Run]:
    """SPR reaches the projection that the values use, or the encoder only and has a projection of its own."""
    return runs(SPR, "aux.objective.projection=Shared|Separate")


def released() -> list[Run]:
    """What the errors of the released code are worth together."""
    return runs("qrc+spr+orth,released")


def learning_rate() -> list[Run]:
    """Of qrc, with SPR and without; SPR's own stays as it is."""
    return runs(f"qrc,{SPR}", "td.lr=3e-5|1e-4|3e-4")


def merging() -> list[Run]:
    """How strq's update and SPR's combine on what they share: half of each, or their sum."""
    return runs("strq") + runs("strq+spr,strq+spr+orth", "merge=Mix(0.5)|Sum")


def plan() -> list[Run]:
    parts = (history, augmentation, reduction, period, weight, projection, released, learning_rate, merging)
    return list(dict.fromkeys(run for part in parts for run in part()))
