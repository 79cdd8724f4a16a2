"""What is exported: a run's agent as its newest good checkpoint has it, and of that what acts: Q or an actor."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.agents import ACTOR, Conv, LeakyNorm, Limited, Mlp, Relu, Unlimited, fit, module_shapes, name_of
from headrace.agents.aux import Q_NETWORK
from headrace.envs.base import EnvSpec
from headrace.errors import HeadraceError
from headrace.normalize import EPS, Moments, variance
from headrace.training.evaluation import newest_checkpoint
from headrace.training.run import Run, run_of

Q, PREFERENCE, ACTION = "q", "preference", "action"
PARAMETERS, SCALE = "stream/agent/params/", "stream/obs_scale/"
KNOWN = (Conv, Mlp, LeakyNorm, Relu, Limited, Unlimited)


class Saved(NamedTuple):
    """An agent at a step of its run."""

    run: Run
    spec: EnvSpec
    step: int
    arrays: dict[str, np.ndarray]
    notices: list[str]  # checkpoints that could not be used

    @property
    def title(self) -> str:
        return f"{name_of(self.run.agent)} on {self.run.env.label}, seed {self.run.seed}, step {self.step:,}"


def read(path: str | Path) -> Saved:
    folder, checkpoint = newest_checkpoint(path)
    run = run_of(folder.identity)
    spec = run.env.compiled().spec if run.form == "compiled" else run.env.host().spec
    return Saved(run, spec, checkpoint.step, checkpoint.arrays, folder.notices)


class Dense(NamedTuple):
    w: np.ndarray
    b: np.ndarray


class Policy(NamedTuple):
    """What a frame leads to: standardised, stacked, encoded, projected, and what the head gives."""

    network: Conv | Mlp
    mean: np.ndarray  # of a frame
    rest: np.ndarray  # what rounding took from the mean
    deviation: np.ndarray
    limit: float  # of what is standardised; 0 where there is none
    encoder: list[Dense]
    projection: Dense
    head: Dense
    gives: str  # what the head gives: q, by action; an actor's preference, by action; or the numbers of an action

    @property
    def box(self) -> bool:
        return self.gives == ACTION


def policy_of(saved: Saved) -> Policy:
    """What a saved agent does at its best, or likeliest; an error where it has a part that is not known here."""
    agent, spec = saved.run.agent, saved.spec
    network = fit(agent.network, spec.observation_shape)
    for part in (network, network.head, agent.observations):
        if type(part) not in KNOWN:
            kind = type(part).__name__
            raise HeadraceError(f"the policy of {name_of(agent)} cannot be exported: {kind} is not supported")
    assert isinstance(network, Conv | Mlp)
    shapes = module_shapes(agent, spec.observation_shape, spec.n_actions, spec.box)
    actor = {name: ACTOR + name for name in Q_NETWORK if agent.td.has_policy and ACTOR + name in shapes}
    layers = {
        module: [
            {name: _array(saved, f"{PARAMETERS}{own}/{i}/{name}", shape) for name, shape in layer.items()}
            for i, layer in enumerate(shapes[own])
        ]
        for module in Q_NETWORK
        for own in [actor.get(module, module)]
    }
    gives = (ACTION if spec.box else PREFERENCE) if actor else Q
    sizes = [(), *[spec.frame_shape] * 4]
    moments = Moments(*(_array(saved, SCALE + name, s) for name, s in zip(Moments._fields, sizes, strict=True)))
    return Policy(
        network=network, mean=moments.mean, rest=moments.mean_rest,
        deviation=np.sqrt(variance(moments) + np.float32(EPS)), limit=float(getattr(agent.observations, "limit", 0.0)),
        encoder=[Dense(**layer) for layer in layers["encoder"]], projection=Dense(**layers["projection"][0]),
        head=Dense(**{"b": np.zeros(spec.n_actions, np.float32), **layers["head"][0]}), gives=gives,
    )  # fmt: skip


def _array(saved: Saved, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = saved.arrays.get(name)
    if array is None or array.shape != shape:
        has = "no" if array is None else f"the shape {array.shape} of"
        raise HeadraceError(f"the state of this run does not fit its agent: it has {has} {name}, {shape} is needed")
    if not np.isfinite(array).all():
        raise HeadraceError(f"the state of this run cannot be exported: {name} is not finite")
    return array
