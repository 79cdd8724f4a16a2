"""What of an agent acts once nothing is learnt any more: the weights of Q, and the scale of observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.agents import Conv, LeakyNorm, Limited, Mlp, Relu, Unlimited, fit, name_of
from headrace.agents.network import q_shapes
from headrace.errors import HeadraceError
from headrace.export.saved import Saved
from headrace.normalize import EPS, Moments, variance

PARAMETERS, SCALE = "stream/agent/params/", "stream/obs_scale/"
KNOWN = (Conv, Mlp, LeakyNorm, Relu, Limited, Unlimited)


class Dense(NamedTuple):
    w: np.ndarray
    b: np.ndarray


class Policy(NamedTuple):
    """Q of a frame: standardised, stacked, encoded, projected, and the head's values."""

    network: Conv | Mlp
    mean: np.ndarray  # of a frame
    rest: np.ndarray  # what rounding took from the mean
    deviation: np.ndarray
    limit: float  # of what is standardised; 0 where there is none
    encoder: list[Dense]
    projection: Dense
    head: np.ndarray


def policy_of(saved: Saved) -> Policy:
    """The greedy policy of a saved agent; an error where it has a part that is not known here."""
    agent, spec = saved.run.agent, saved.spec
    network = fit(agent.network, spec.observation_shape)
    if agent.td.has_policy:
        raise HeadraceError(f"the policy of {name_of(agent)} cannot be exported: only values by action are, Q(s, .)")
    for part in (network, network.head, agent.observations):
        if type(part) not in KNOWN:
            kind = type(part).__name__
            raise HeadraceError(f"the policy of {name_of(agent)} cannot be exported: nothing is known here of {kind}")
    assert isinstance(network, Conv | Mlp)
    shapes = q_shapes(network, spec.observation_shape, spec.n_actions)
    layers = {
        module: [
            {name: _array(saved, f"{PARAMETERS}{module}/{i}/{name}", shape) for name, shape in layer.items()}
            for i, layer in enumerate(its)
        ]
        for module, its in shapes.items()
    }
    sizes = [(), *[spec.frame_shape] * 4]
    moments = Moments(*(_array(saved, SCALE + name, s) for name, s in zip(Moments._fields, sizes, strict=True)))
    return Policy(
        network=network, mean=moments.mean, rest=moments.mean_rest,
        deviation=np.sqrt(variance(moments) + np.float32(EPS)), limit=float(getattr(agent.observations, "limit", 0.0)),
        encoder=[Dense(**layer) for layer in layers["encoder"]], projection=Dense(**layers["projection"][0]),
        head=layers["head"][0]["w"],
    )  # fmt: skip


def _array(saved: Saved, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = saved.arrays.get(name)
    if array is None or array.shape != shape:
        has = "no" if array is None else f"the shape {array.shape} of"
        raise HeadraceError(f"the state of this run does not fit its agent: it has {has} {name}, {shape} is needed")
    if not np.isfinite(array).all():
        raise HeadraceError(f"the state of this run cannot be exported: {name} is not finite")
    return array
