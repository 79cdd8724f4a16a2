"""An agent: a composition of parts, and the arrays it learns."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.agents.aux import AuxiliaryStream, Filter, NoAuxiliary, Unfiltered
from headrace.agents.merge import Merge, Sum
from headrace.agents.network import BySuite, Network, Shapes, count, fit, q_shapes
from headrace.agents.observations import Limits, Unlimited
from headrace.agents.td import Rule
from headrace.errors import BadSetting
from headrace.part import Part, added, has, within


class Exploration(Part, slot=True):
    """How the agent comes to try other actions than the best one."""


@dataclass(frozen=True)
class EpsilonGreedy(Exploration):
    """A random action with probability epsilon, which falls linearly over the first `fraction` of the run."""

    start: float = within(1.0, 0.0, 1.0)
    end: float = within(0.01, 0.0, 1.0)
    fraction: float = within(0.1, 0.0, 1.0)  # of the run's steps


@dataclass(frozen=True)
class Agent(Part):
    """How values are learnt, what is learnt beside them, how both combine, on which network, with which exploration.

    Example:
        ```python
        Agent(Qrc(lr=3e-4), Auxiliary(Spr(horizon=3), weight=0.5))
        ```
    """

    td: Rule
    aux: AuxiliaryStream = NoAuxiliary()
    merge: Merge = Sum()
    network: Network = BySuite()
    explore: Exploration = EpsilonGreedy()
    td_filter: Filter = Unfiltered()  # on the RL update; its traces stay untouched
    observations: Limits = added(Unlimited())  # once standardised

    def __post_init__(self) -> None:
        super().__post_init__()
        if not has(self.td, "gamma"):
            raise BadSetting(f"a rule needs a field gamma, by which rewards are scaled: {self.td!r} has none")


def require_actions(agent: Agent, box: bool) -> None:
    """An error where the actions are points of a box and the agent learns the value of each action by itself."""
    if box and not agent.td.has_policy:
        raise BadSetting(
            f"{type(agent.td).__name__} compares a few actions by number, and here an action is a point of a box: take "
            "an agent with a policy, such as ac"
        )


def module_shapes(agent: Agent, observation_shape: tuple[int, ...], n_actions: int, box: bool = False) -> Shapes:
    """Every module of the agent with the shapes of its layers. In a `box` an action is `n_actions` numbers."""
    require_actions(agent, box)
    network = fit(agent.network, observation_shape)
    value = q_shapes(network, observation_shape, n_actions)
    shapes = {**value, **agent.aux.shapes(network, observation_shape, n_actions), **agent.td.shapes(value, box)}
    if missing := [name for name in agent.aux.modules() if name not in shapes]:
        raise BadSetting(f"{agent.aux!r} learns {', '.join(missing)}, of which it gives no shapes")
    return shapes


def parameter_count(agent: Agent, observation_shape: tuple[int, ...], n_actions: int) -> int:
    return count(module_shapes(agent, observation_shape, n_actions))
