"""How values are learnt: temporal-difference rules, their targets and memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.agents.guard import Clip, Guard, Unguarded
from headrace.agents.network import Shapes
from headrace.errors import BadSetting
from headrace.part import Part, added, positive, shape, since, within


class Target(Part, slot=True):
    """Which parameters a bootstrap or a prediction's truth reads."""


@dataclass(frozen=True)
class Online(Target):
    """The target is the present network."""


@dataclass(frozen=True)
class Copy(Target):
    """The target is a copy of the network, renewed now and then."""

    every: int = within(1000, low=1)  # environment steps


@dataclass(frozen=True)
class Polyak(Target):
    """The target is an exponential average of the network."""

    keep: float = within(0.995, 0.0, 1.0)  # fraction of the old target kept at each step


class Memory(Part, slot=True):
    """Which transition is learnt from."""


@dataclass(frozen=True)
class Latest(Memory):
    """Learn from the transition that has just happened."""


@dataclass(frozen=True)
class Replay(Memory):
    """Keep the last few transitions and learn from one of them, drawn uniformly."""

    size: int = shape(5)  # transitions


class Rule(Part, slot=True):
    """How values are learnt. A rule has a field `gamma`, by which rewards are scaled too."""

    if TYPE_CHECKING:  # a field of that name in every rule
        gamma: Any
    target: Any = Online()
    looks_ahead: ClassVar[bool] = False  # whether it learns from the numbers by which the next action is drawn

    has_policy: ClassVar[bool] = False  # whether actions are drawn from a policy, which may be one over a box

    def shapes(self, value: Shapes, box: bool) -> Shapes:
        """The modules that the rule learns beside those of Q, whose shapes are given, or instead of them.

        In a `box` an action is as many numbers as Q would have outputs.
        """
        return {}

    def draws(self) -> int:
        """How many uniform numbers one step of the rule takes."""
        return 0


@dataclass(frozen=True)
class Dqn(Rule):
    """Streaming DQN: semi-gradient Q-learning by plain SGD against a target network."""

    lr: float = within(1e-4, low=0.0)
    gamma: float = within(0.99, 0.0, 1.0)
    target: Target = Copy()
    memory: Memory = Latest()
    guard: Guard = since(Clip(), Unguarded())  # of the gradient of Q(s, a)


class StepSize(Part, slot=True):
    """How far a rule with a trace goes along it, and in which metric."""

    implicit: ClassVar[bool] = False  # whether it is made of the error's gradient too: of Q(s, a) and of s' together

    def check_decay(self, gamma: float, lamda: float) -> None:
        """An error where it cannot go with a trace that decays so."""


@dataclass(frozen=True)
class ObGd(StepSize):
    """Overshooting-bounded gradient descent (Elsayed et al. 2024): at most `td.lr`, less where the trace is long. Its
    safety factor is `td.kappa`."""


@dataclass(frozen=True)
class Sgd(StepSize):
    """Plain steps of `td.lr`."""


@dataclass(frozen=True)
class Adaptive(StepSize):
    """Each parameter's step is divided by the root of its mean squared gradient; the error is limited (2605.06764)."""

    epsilon: float = positive(0.1, "what was never needed would be divided by 0")
    limit: float = within(1.0, low=0.0)  # of the TD error


@dataclass(frozen=True)
class Intentional(StepSize):
    """Steps that change Q(s, a) by the fraction `td.lr` of the error, as far as a gradient tells (2604.19033)."""

    beta: float = within(0.999, 0.0, 1.0)  # fraction of the mean squared gradient kept
    clip: float = within(20.0, low=0.0)  # of the TD error, in roots of its mean square
    error_beta: float = within(0.9998, 0.0, 1.0)  # fraction of that mean square kept

    def __post_init__(self) -> None:
        super().__post_init__()
        if 1 in (self.beta, self.error_beta):
            raise BadSetting(f"a mean of which all is kept stays 0: beta and error_beta must be < 1, got {self!r}")

    def check_decay(self, gamma: float, lamda: float) -> None:
        if gamma * lamda == 1:
            raise BadSetting(f"{type(self).__name__} steps need gamma * lamda < 1, got gamma=1.0 and lamda=1.0")


@dataclass(frozen=True)
class Implicit(Intentional):
    """Intentional steps, shortened by how far the error falls of itself while they are taken (2505.01361)."""

    implicit: ClassVar[bool] = True
    # kappa: the divisor is at least so many times that of Intentional
    floor: float = positive(1.0, "with less than nothing to divide by, a step would go the wrong way")


@dataclass(frozen=True)
class DecayedMaximum(StepSize):
    """Each parameter's step is divided by the decayed maximum of its own (2410.14606, third version): none moves by
    more than `td.lr` at once."""

    beta: float = within(0.999, 0.0, 1.0)  # fraction of the maximum kept
    epsilon: float = positive(1e-8, "what has not moved yet would be divided by 0")


@dataclass(frozen=True)
class StreamQ(Rule):
    """Stream Q(lambda): a trace, and a step size that fits one stream (Elsayed et al. 2024)."""

    lr: float = within(1.0, low=0.0)
    gamma: float = within(0.99, 0.0, 1.0)
    lamda: float = within(0.8, 0.0, 1.0)
    kappa: float = within(2.0, low=0.0)
    target: Target = Online()
    step_size: StepSize = added(ObGd())

    def __post_init__(self) -> None:
        super().__post_init__()
        self.step_size.check_decay(self.gamma, self.lamda)


@dataclass(frozen=True)
class Sarsa(StreamQ):
    """Stream SARSA(lambda): Stream Q whose next value is that of the action that will be taken."""

    looks_ahead: ClassVar[bool] = True


@dataclass(frozen=True)
class ExpectedSarsa(StreamQ):
    """Stream expected SARSA(lambda): Stream Q whose next value is the mean over the actions that may be taken."""


@dataclass(frozen=True)
class Qrc(Rule):
    """QRC(lambda): gradient TD with regularised corrections and traces (Elelimy et al. 2025)."""

    lr: float = within(1e-4, low=0.0)
    gamma: float = within(0.99, 0.0, 1.0)
    lamda: float = within(0.8, 0.0, 1.0)
    h_lr_scale: float = within(0.1, low=0.0)  # learning rate of h, as a fraction of lr
    regularizer: float = within(1.0, low=0.0)  # beta: decay of h's parameters
    target: Target = Online()
    guard: Guard = since(Clip(), Unguarded())  # of each gradient: of Q(s, a), max Q(s', .) and h(s, a)

    def shapes(self, value: Shapes, box: bool) -> Shapes:
        """A second network like Q's, whose modules are called `h_...`."""
        return {f"h_{name}": layers for name, layers in value.items()}
