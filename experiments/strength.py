"""How strong should SPR be? 1M steps of MinAtar. Within a function only numbers differ: its runs form one fleet.

headrace sweep experiments/strength.py --on fleet                      135 runs, three fleets
headrace sweep experiments/strength.py::qrc_spr_weight --on fleet      one of them
"""

from headrace.sweep import grid
from headrace.training.run import Run


def runs(variant: str, setting: str) -> list[Run]:
    return grid(variant, "minatar/*", seeds="0:3", steps=1e6, settings=[setting])


def qrc_lr() -> list[Run]:
    return runs("qrc", "td.lr=3e-5|1e-4|3e-4")


def qrc_spr_orth_weight() -> list[Run]:
    return runs("qrc+spr+orth", "aux.weight=2|0.4|0.1")


def qrc_spr_weight() -> list[Run]:
    return runs("qrc+spr", "aux.weight=2|0.4|0.1")


def plan() -> list[Run]:
    return qrc_lr() + qrc_spr_orth_weight() + qrc_spr_weight()
