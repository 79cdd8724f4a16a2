"""An agent: a composition of parts, and the arrays it learns."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from headrace.agents.aux import Auxiliary, Curl, NoAuxiliary, Orth, Separate, Spr, Unfiltered
from headrace.agents.merge import AuxOrthogonalToTd, Bounded, Mix, PcGrad, SharedFlipped, Sum
from headrace.agents.network import (
    BySuite,
    Conv,
    Layer,
    Mlp,
    count,
    dense_shapes,
    dynamics_shapes,
    fit,
    latent_shape,
    q_shapes,
)
from headrace.agents.observations import Limited, Unlimited
from headrace.agents.td import Dqn, Qrc, StreamQ
from headrace.part import Part, added, within

__all__ = [
    "Agent", "Bounded", "EpsilonGreedy", "Limited", "Orth", "Unfiltered", "Unlimited", "module_shapes",
    "parameter_count",
]  # fmt: skip


@dataclass(frozen=True)
class EpsilonGreedy(Part):
    """A random action with probability epsilon, which falls linearly over the first `fraction` of the run."""

    start: float = within(1.0, 0.0, 1.0)
    end: float = within(0.01, 0.0, 1.0)
    fraction: float = within(0.1, 0.0, 1.0)  # of the run's steps


@dataclass(frozen=True)
class Agent(Part):
    """How values are learnt, what is learnt beside them, how both combine, on which network, with which exploration."""

    td: Dqn | StreamQ | Qrc
    aux: NoAuxiliary | Auxiliary = NoAuxiliary()
    merge: Sum | Mix | AuxOrthogonalToTd | PcGrad | SharedFlipped | Bounded = Sum()
    network: BySuite | Conv | Mlp = BySuite()
    explore: EpsilonGreedy = EpsilonGreedy()
    td_filter: Unfiltered | Orth = Unfiltered()  # on the RL update; its traces stay untouched
    observations: Unlimited | Limited = added(Unlimited())  # once standardised


def module_shapes(agent: Agent, observation_shape: tuple[int, ...], n_actions: int) -> dict[str, list[Layer]]:
    """Every module of the agent with the shapes of its layers; those of QRC's second network begin with `h_`."""
    network = fit(agent.network, observation_shape)
    value = q_shapes(network, observation_shape, n_actions)
    second = {f"h_{name}": layers for name, layers in value.items()} if isinstance(agent.td, Qrc) else {}
    beside = _aux_shapes(agent.aux, network, observation_shape, n_actions)
    return {**value, **beside, **second}


def _aux_shapes(
    aux: NoAuxiliary | Auxiliary, network: Conv | Mlp, observation_shape: tuple[int, ...], n_actions: int
) -> dict[str, list[Layer]]:
    if isinstance(aux, NoAuxiliary):
        return {}
    latent, objective = prod(latent_shape(network, observation_shape)), aux.objective
    if isinstance(objective, Curl):
        bilinear: list[Layer] = [{"w": (objective.latent, objective.latent)}]
        return {"curl_projection": dense_shapes(latent, objective.latent), "curl_bilinear": bilinear}
    assert isinstance(objective, Spr)
    own = {"aux_projection": dense_shapes(latent, network.hidden)} if isinstance(objective.projection, Separate) else {}
    predictor = dense_shapes(network.hidden, network.hidden)
    return {**own, "dynamics": dynamics_shapes(network, n_actions), "predictor": predictor}


def parameter_count(agent: Agent, observation_shape: tuple[int, ...], n_actions: int) -> int:
    return count(module_shapes(agent, observation_shape, n_actions))
