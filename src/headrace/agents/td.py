"""How values are learnt: the three temporal-difference rules, their targets and memories."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.agents.guard import Clip, Unguarded
from headrace.part import Part, shape, since, within


@dataclass(frozen=True)
class Online(Part):
    """The target is the present network."""


@dataclass(frozen=True)
class Copy(Part):
    """The target is a copy of the network, renewed now and then."""

    every: int = within(1000, low=1)  # environment steps


@dataclass(frozen=True)
class Polyak(Part):
    """The target is an exponential average of the network."""

    keep: float = within(0.995, 0.0, 1.0)  # fraction of the old target kept at each step


@dataclass(frozen=True)
class Latest(Part):
    """Learn from the transition that has just happened."""


@dataclass(frozen=True)
class Replay(Part):
    """Keep the last few transitions and learn from one of them, drawn uniformly."""

    size: int = shape(5)  # transitions


@dataclass(frozen=True)
class Dqn(Part):
    """Streaming DQN: semi-gradient Q-learning by plain SGD against a target network."""

    lr: float = within(1e-4, low=0.0)
    gamma: float = within(0.99, 0.0, 1.0)
    target: Online | Copy | Polyak = Copy()
    memory: Latest | Replay = Latest()
    guard: Clip | Unguarded = since(Clip(), Unguarded())  # of the gradient of Q(s, a)


@dataclass(frozen=True)
class StreamQ(Part):
    """Stream Q(lambda) with overshooting-bounded gradient descent (Elsayed et al. 2024)."""

    lr: float = within(1.0, low=0.0)
    gamma: float = within(0.99, 0.0, 1.0)
    lamda: float = within(0.8, 0.0, 1.0)
    kappa: float = within(2.0, low=0.0)
    target: Online | Copy | Polyak = Online()


@dataclass(frozen=True)
class Qrc(Part):
    """QRC(lambda): gradient TD with regularised corrections and traces (Elelimy et al. 2025)."""

    lr: float = within(1e-4, low=0.0)
    gamma: float = within(0.99, 0.0, 1.0)
    lamda: float = within(0.8, 0.0, 1.0)
    h_lr_scale: float = within(0.1, low=0.0)  # learning rate of h, as a fraction of lr
    regularizer: float = within(1.0, low=0.0)  # beta: decay of h's parameters
    target: Online | Copy | Polyak = Online()
    guard: Clip | Unguarded = since(Clip(), Unguarded())  # of each gradient: of Q(s, a), max Q(s', .) and h(s, a)
