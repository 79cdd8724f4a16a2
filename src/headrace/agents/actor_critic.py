"""Rules that learn a policy beside the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.agents.network import Shapes, dense_shapes
from headrace.agents.td import ObGd, Rule, StepSize
from headrace.errors import BadSetting
from headrace.part import Part, within

ACTOR = "pi_"  # the modules of the actor's own begin with it


class ActorEncoder(Part, slot=True):
    """Whose encoder the policy sees through."""

    own: ClassVar[tuple[str, ...]]  # the modules that the actor does not share with the critic


@dataclass(frozen=True)
class OwnEncoder(ActorEncoder):
    """The actor learns an encoder of its own; the auxiliary reaches the critic's alone."""

    own: ClassVar[tuple[str, ...]] = ("encoder", "projection", "head")


@dataclass(frozen=True)
class OneEncoder(ActorEncoder):
    """Actor and critic see through one encoder, which learns from both."""

    own: ClassVar[tuple[str, ...]] = ("projection", "head")


@dataclass(frozen=True)
class ActorCritic(Rule):
    """Stream AC(lambda): a policy, and the value of the states it leads to, with a trace each (Elsayed et al. 2024)."""

    lr: float = within(1.0, low=0.0)  # of the critic
    gamma: float = within(0.99, 0.0, 1.0)
    lamda: float = within(0.8, 0.0, 1.0)
    kappa: float = within(2.0, low=0.0)  # of the critic
    actor_lr: float = within(1.0, low=0.0)
    actor_kappa: float = within(3.0, low=0.0)
    entropy: float = within(0.01, low=0.0)  # weight of the entropy's gradient, which has the sign of the error
    encoder: ActorEncoder = OwnEncoder()
    step_size: StepSize = ObGd()  # of the critic
    actor_step_size: StepSize = ObGd()

    has_policy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.step_size.check_decay(self.gamma, self.lamda)
        self.actor_step_size.check_decay(self.gamma, self.lamda)
        if self.actor_step_size.implicit:
            raise BadSetting(
                "the actor's error does not change with the actor, so that Implicit would be Intentional there: "
                f"set actor_step_size=Intentional, got {self.actor_step_size!r}"
            )

    def shapes(self, value: Shapes, box: bool) -> Shapes:
        """V instead of Q, and the actor: a preference for each action; in a box a mean and a scale for each number."""
        hidden, n_actions = value["head"][0]["w"]
        outputs = dense_shapes(hidden, n_actions)
        actor = {**value, "head": outputs * 2 if box else outputs}
        return {"head": dense_shapes(hidden, 1), **{ACTOR + name: actor[name] for name in self.encoder.own}}
