"""The nine variants of the paper, every ablation, and what was found to be better, by name."""

from __future__ import annotations

from dataclasses import replace

from headrace.agents.agent import Agent, EpsilonGreedy
from headrace.agents.aux import (
    AsIs,
    Auxiliary,
    Clipped,
    Curl,
    Greedy,
    MeanOverHorizon,
    Orth,
    ReleasedRing,
    ShiftAndIntensity,
    Spr,
)
from headrace.agents.guard import Unguarded
from headrace.agents.merge import AuxOrthogonalToTd, Average, Mix, SharedFlipped
from headrace.agents.td import Copy, Dqn, Polyak, Qrc, Replay, StreamQ
from headrace.errors import unknown
from headrace.part import differences, has, tweak

SPR = Auxiliary(Spr(), weight=2.0)
ORTH = replace(SPR, filter=Orth())
LONGER = EpsilonGreedy(fraction=0.2)

VARIANTS: dict[str, Agent] = {
    "dqn": Agent(Dqn()),
    "dqn+spr": Agent(Dqn(), SPR),
    "strq": Agent(StreamQ(), explore=LONGER),
    "strq+spr": Agent(StreamQ(), SPR, merge=Mix(), explore=LONGER),
    "strq+spr+orth": Agent(StreamQ(), ORTH, merge=Mix(), explore=LONGER),
    "strq+spr+orth2": Agent(StreamQ(), ORTH, merge=AuxOrthogonalToTd(), explore=LONGER),
    "qrc": Agent(Qrc()),
    "qrc+spr": Agent(Qrc(), SPR),
    "qrc+spr+orth": Agent(Qrc(), ORTH),
}

_BEST = VARIANTS["qrc+spr+orth"]
_STRQ2 = VARIANTS["strq+spr+orth2"]
_RELEASED = Spr(reduce=MeanOverHorizon(), window=ReleasedRing(), augment=Clipped(ShiftAndIntensity()))
ABLATIONS: dict[str, Agent] = {
    "dqn+unguarded": Agent(Dqn(guard=Unguarded())),
    "qrc+unguarded": Agent(Qrc(guard=Unguarded())),
    "dqn+replay5": Agent(Dqn(memory=Replay(5))),
    "dqn+polyak": Agent(Dqn(target=Polyak(0.995))),
    "qrc+target": Agent(Qrc(target=Copy(1000))),
    "qrc+orth_td": Agent(Qrc(), td_filter=Orth()),
    "qrc+curl": Agent(Qrc(), Auxiliary(Curl(), weight=1.0)),
    "qrc+spr+projected": tweak(_BEST, "aux.filter.history=Projected"),
    "qrc+spr+raw_current": tweak(_BEST, "aux.filter.history=RawCurrent"),
    "qrc+spr+tau99": replace(VARIANTS["qrc+spr"], aux=replace(SPR, objective=Spr(augment=AsIs(), target=Polyak(0.99)))),
    "qrc+spr+mean": tweak(VARIANTS["qrc+spr"], "aux.objective.reduce=MeanOverHorizon"),
    "qrc+spr+separate": tweak(VARIANTS["qrc+spr"], "aux.objective.projection=Separate"),
    "qrc+spr+every5": tweak(VARIANTS["qrc+spr"], "aux.gate=Every(5)"),
    "qrc+spr+greedy": tweak(VARIANTS["qrc+spr"], "aux.gate=Greedy"),
    "qrc+spr+pcgrad": tweak(VARIANTS["qrc+spr"], "merge=PcGrad"),
    "strq+spr+sum": tweak(VARIANTS["strq+spr"], "merge=Sum"),
    "strq+spr+orth2+average": replace(_STRQ2, merge=AuxOrthogonalToTd(against=Average())),
    "released": Agent(Qrc(), Auxiliary(_RELEASED, weight=2.0, gate=Greedy(), filter=Orth()), merge=SharedFlipped()),
}

RECIPES: dict[str, Agent] = {
    "qrc+swift": tweak(VARIANTS["qrc"], "td.lr=3e-4"),  # three times the paper's learning rate: see docs/results.md
}

KNOWN = {**VARIANTS, **ABLATIONS, **RECIPES}


UNGUARDED = "+unguarded"  # after any name: the agent as it was published, without a bound on its gradients


def agent_named(name: str) -> Agent:
    """The agent that a variant's, an ablation's or a recipe's name stands for, with or without its guards."""
    base = name.removesuffix(UNGUARDED)
    if name not in KNOWN and base != name and base in KNOWN and guards(KNOWN[base]):
        return _with_guards(KNOWN[base], "Unguarded")
    if name not in KNOWN:
        raise unknown("variant", name, list(KNOWN))
    return KNOWN[name]


def guards(agent: Agent) -> list[str]:
    """The settings of the agent that are guards; those that ObGD bounds have none."""
    return [path for path in ("td.guard", "aux.guard") if has(agent, path)]


def _with_guards(agent: Agent, guard: str) -> Agent:
    return tweak(agent, *(f"{path}={guard}" for path in guards(agent)))


def nearest_name(agent: Agent) -> str:
    """The known agent from which this one can be told in the fewest letters."""
    if guards(agent) and agent == _with_guards(agent, "Unguarded"):
        return nearest_name(_with_guards(agent, "Clip")).removesuffix(UNGUARDED) + UNGUARDED
    return min(KNOWN, key=lambda name: len(" ".join(differences(agent, KNOWN[name]))))


def name_of(agent: Agent) -> str:
    """The name of an agent; where it has none of its own, the nearest name and the settings that differ."""
    name = nearest_name(agent)
    return " ".join([name, *differences(agent, agent_named(name))])
