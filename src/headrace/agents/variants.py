"""The nine variants of the paper, every ablation, and what was found to be better, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from headrace.agents.actor_critic import ActorCritic
from headrace.agents.agent import Agent, EpsilonGreedy
from headrace.agents.aux import (
    AsIs,
    Auxiliary,
    Clipped,
    Curl,
    Fading,
    Greedy,
    MeanOverHorizon,
    Orth,
    Projected,
    ReleasedRing,
    ShiftAndIntensity,
    Spr,
    Together,
)
from headrace.agents.guard import Clip, Unguarded
from headrace.agents.merge import AuxOrthogonalToTd, Average, Bounded, Mix, SharedFlipped, Sum
from headrace.agents.network import BySuite, Relu
from headrace.agents.td import (
    Adaptive,
    Copy,
    DecayedMaximum,
    Dqn,
    ExpectedSarsa,
    Implicit,
    Intentional,
    Polyak,
    Qrc,
    Replay,
    Sarsa,
    StreamQ,
)
from headrace.errors import unknown
from headrace.part import at_path, differences, from_json, has, tweak

SPR = Auxiliary(Spr(), weight=2.0)
ORTH = replace(SPR, filter=Orth())
LONGER = EpsilonGreedy(fraction=0.2)
NONE = EpsilonGreedy(start=0.0, end=0.0)  # beside what a policy does by itself
INTENTIONAL_AC = ActorCritic(lr=0.5, actor_lr=0.05, step_size=Intentional(), actor_step_size=Intentional())

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
_RELEASED = Auxiliary(
    Spr(reduce=MeanOverHorizon(), window=ReleasedRing(), augment=Clipped(ShiftAndIntensity())),
    gate=Greedy(),
    guard=Unguarded(),
)
_RELEASED_ORTH = replace(_RELEASED, filter=Orth(history=Projected(), modules=Together(), rest=Fading()))
_RELEASED_QRC = Agent(Qrc(guard=Unguarded()), _RELEASED_ORTH, Bounded(SharedFlipped(), 100), BySuite(head=Relu()))
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
    "released": _RELEASED_QRC,
    "released-down": replace(_RELEASED_QRC, merge=Bounded(Sum(), 100)),
    # "Twice the gradient" is twice the learning rate: nothing else lies between a gradient and its step.
    "released-dqn": Agent(Dqn(lr=2e-4, guard=Unguarded())),
    "released-dqn+spr": Agent(
        Dqn(target=Polyak(0.995), guard=Unguarded()), _RELEASED, Bounded(Sum(), 20), BySuite(head=Relu())
    ),
    # What was called `released` before the other differences were known; with a guard, as it does not have all of them.
    "released-four": Agent(Qrc(), replace(_RELEASED, filter=Orth(), guard=Clip()), merge=SharedFlipped()),
}

RECIPES: dict[str, Agent] = {
    "qrc+swift": tweak(VARIANTS["qrc"], "td.lr=3e-4"),  # three times the paper's learning rate: see docs/results.md
}


def _family(name: str, base: Agent) -> dict[str, Agent]:
    """The agent, and with SPR, orth and orth2 beside it, merged as those of strq are."""
    return {
        name: base,
        f"{name}+spr": replace(base, aux=SPR, merge=Mix()),
        f"{name}+spr+orth": replace(base, aux=ORTH, merge=Mix()),
        f"{name}+spr+orth2": replace(base, aux=ORTH, merge=AuxOrthogonalToTd()),
    }


FAMILY: dict[str, Agent] = {
    **_family("q+adaptive", Agent(StreamQ(lr=4.6e-4, step_size=Adaptive()), explore=LONGER)),
    **_family("q+intentional", Agent(StreamQ(lr=0.25, step_size=Intentional()), explore=LONGER)),
    **_family("q+implicit", Agent(StreamQ(lr=0.5, step_size=Implicit()), explore=LONGER)),
    **_family("q+decayed", Agent(StreamQ(lr=3e-4, step_size=DecayedMaximum()), explore=LONGER)),
    **_family("ac", Agent(ActorCritic(), explore=NONE)),
    "ac+intentional": Agent(INTENTIONAL_AC, explore=NONE),
    "sarsa": Agent(Sarsa(), explore=LONGER),
    "expected-sarsa": Agent(ExpectedSarsa(), explore=LONGER),
}

KNOWN = {**VARIANTS, **ABLATIONS, **RECIPES, **FAMILY}

ABOUT: dict[str, str] = {  # in a line each
    "dqn": "streaming DQN: SGD, a target network, memory of one transition",
    "dqn+spr": "with SPR beside it",
    "strq": "Stream Q(lambda) with ObGD",
    "strq+spr": "with SPR; shared modules take half of each update",
    "strq+spr+orth": "and orth: SPR's gradient loses its component along its own past",
    "strq+spr+orth2": "and orth2: SPR's update loses its component along the RL update",
    "qrc": "QRC(lambda): gradient TD with a second network",
    "qrc+spr": "with SPR beside it",
    "qrc+spr+orth": "and orth; what the paper recommends",
    "dqn+unguarded": "without the bound on gradients, as the paper's text has it",
    "qrc+unguarded": "without the bound on gradients, as the paper's text has it",
    "dqn+replay5": "memory of five transitions",
    "dqn+polyak": "target network by averaging, 0.995 a step",
    "qrc+target": "target network, copied every 1,000 steps",
    "qrc+orth_td": "orth on the RL update",
    "qrc+curl": "CURL instead of SPR",
    "qrc+spr+projected": "orth whose history averages projected gradients",
    "qrc+spr+raw_current": "orth whose history includes the present gradient",
    "qrc+spr+tau99": "SPR's targets averaged with 0.99, no augmentation",
    "qrc+spr+mean": "SPR's loss as the mean over its horizon instead of the sum",
    "qrc+spr+separate": "SPR with a projection of its own",
    "qrc+spr+every5": "SPR at every fifth step",
    "qrc+spr+greedy": "SPR on greedy steps only",
    "qrc+spr+pcgrad": "PCGrad between the two updates",
    "strq+spr+sum": "updates added instead of mixed",
    "strq+spr+orth2+average": "orth2 against a moving average of RL updates",
    "released": "qrc+spr+orth as the paper's released code has it",
    "released-down": "the same with the sign put right: every module descends SPR's loss",
    "released-dqn": "dqn of that code",
    "released-dqn+spr": "dqn+spr of that code",
    "released-four": "qrc+spr+orth with that code's sign, window, strength and clipped images alone",
    "qrc+swift": "qrc with three times the learning rate: the best on MinAtar of what was tried",
    "q+adaptive": "Stream Q(lambda) with steps divided by the root of the mean squared gradient",
    "q+intentional": "Stream Q(lambda) with steps that change Q by a fraction of the error",
    "q+implicit": "the same, shortened where the error falls by itself",
    "q+decayed": "Stream Q(lambda) with steps divided by their decayed maximum",
    "ac": "Stream AC(lambda): a policy and V, each with ObGD; boxes of actions too",
    "ac+intentional": "the same with intentional steps",
    "sarsa": "Stream SARSA(lambda) with ObGD",
    "expected-sarsa": "Stream expected SARSA(lambda) with ObGD",
}
ABOUT |= {name: ABOUT[f"strq+spr{end}"] for name in FAMILY for end in [name.partition("+spr")[2]] if "+spr" in name}


UNGUARDED = "+unguarded"  # after any name: the agent as it was published, without a bound on its gradients


def agent_named(name: str) -> Agent:
    """The agent that a name stands for.

    Args:
        name: Of a variant, an ablation or a recipe (`headrace variants`), with `+unguarded` behind it or not; or the
            import path of an agent, such as `my_rules.AGENT`.

    Returns:
        The agent, a value that `tweak` changes.

    Example:
        ```python
        agent = headrace.agent("qrc+spr+orth")
        ```
    """
    base = name.removesuffix(UNGUARDED)
    if name in KNOWN:
        return KNOWN[name]
    if "." in name and isinstance(found := at_path(name), Agent):
        return found
    if base == name or base not in KNOWN or not guards(KNOWN[base]):
        raise unknown("variant", name, list(KNOWN))
    return _without_guards(KNOWN[base])


def agent_of(data: Mapping[str, Any]) -> Agent:
    """The agent that `to_json` wrote."""
    return from_json(data, Agent)


def guards(agent: Agent) -> list[str]:
    """The settings of the agent that are guards; StreamQ has none of its own, as ObGD bounds it."""
    return [path for path in ("td.guard", "aux.guard") if has(agent, path)]


def _without_guards(agent: Agent) -> Agent:
    return tweak(agent, *(f"{path}=Unguarded" for path in guards(agent)))


@cache
def _nameable() -> dict[str, Agent]:
    """Every agent that has a name: the known ones, and those of them that have guards without."""
    bare = {name + UNGUARDED: _without_guards(agent) for name, agent in KNOWN.items()}
    return KNOWN | {name: agent for name, agent in bare.items() if agent not in KNOWN.values()}


@lru_cache(maxsize=1000)  # it takes milliseconds, and a sweep asks for its runs' names over and over
def nearest_name(agent: Agent) -> str:
    """The agent with a name from which this one can be told in the fewest letters."""
    found = _nameable()
    return min(found, key=lambda name: len(" ".join(differences(agent, found[name]))))


def name_of(agent: Agent) -> str:
    """The name of an agent; where it has none of its own, the nearest name and the settings that differ."""
    name = nearest_name(agent)
    return " ".join([name, *differences(agent, agent_named(name))])
