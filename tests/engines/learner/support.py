"""Both engines side by side: the same experience, the same draws, states compared array by array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from headrace import agents
from headrace.agents import Agent, BySuite, Conv, Mlp
from headrace.definition.networks import Layout, layout_in
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from headrace.engines.jax.stream import StreamState, advance, begin, make_setting
from headrace.engines.learner.engine import LearnerEngine
from headrace.envs.base import EnvSpec, TimeStep

QUICK = {  # compiles in little time
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,  # half the time
}
STEPS = 1000  # of the run that the streams belong to: epsilon falls over the first hundred or two

UNKNOWN = ("curl", "decayed", "implicit", "sarsa")  # to the learner; agents with these in their names
NAMES = [name for name in agents.KNOWN if not any(word in name for word in UNKNOWN)]
WITH_BOXES = [*((name, False) for name in NAMES), *((name, True) for name in NAMES if name.startswith("ac"))]

IMAGE, VECTOR = Conv((4, 5), ((3, 3), (2, 2)), ((1, 1), (2, 1)), 8), Mlp((6, 5), 7)
SMALL: dict[Any, tuple[int, ...]] = {IMAGE: (7, 8, 3), VECTOR: (4,)}
SUITES = {"minatar": (10, 10, 4), "octax": (32, 64, 4), "atari": (84, 84, 4), "vector": (8,)}

_advance = jax.jit(advance, static_argnums=1, compiler_options=QUICK)
_begin = jax.jit(begin, static_argnums=1, compiler_options=QUICK)


def spec_of(shape: tuple[int, ...], actions: int = 3, frames: int = 1, box: bool = False) -> EnvSpec:
    return EnvSpec("random", shape, tuple("abcdefghijklmnopqr"[:actions]), frames, box=box)


def on(agent: Agent, network: Conv | Mlp | BySuite) -> Agent:
    return replace(agent, network=network)


class Reference:
    """The definition, with the names of the learner's methods."""

    def __init__(self, agent: Agent, spec: EnvSpec, seed: int = 0, steps: int = STEPS) -> None:
        self.setting = make_setting(agent, seed, steps)
        self.layout: Layout = layout_in(agent, spec)
        self.state: StreamState | None = None

    def begin(self, obs: np.ndarray) -> None:
        self.state = _begin(self.setting, self.layout, obs)

    def learn(self, timestep: TimeStep) -> None:
        self.state, _ = _advance(self.setting, self.layout, self.state, timestep)

    def save(self) -> dict[str, np.ndarray]:
        return named_arrays("stream", self.state)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.state = from_named_arrays("stream", self.state, arrays)


def engines(agent: Agent, spec: EnvSpec, seed: int = 0, learner: Any = LearnerEngine) -> tuple[Reference, Any]:
    return Reference(agent, spec, seed), learner(agent, spec, seed=seed, steps=STEPS)


@lru_cache(maxsize=8)
def experience(shape: tuple[int, ...], steps: int, seed: int = 0) -> tuple[np.ndarray, list[TimeStep]]:
    """A first observation and what follows: every 17th step terminates, every 23rd truncates, and after every 29th the
    episode goes on although learning is told that it ended. Most of an observation is constant, as in a game."""
    random = np.random.default_rng(seed)
    still = random.random(shape) < 0.5

    def look() -> np.ndarray:
        return np.where(still, 0.25, random.normal(size=shape)).astype(np.float32)

    found, first = [], look()
    for t in range(1, steps + 1):
        terminated, truncated, life = t % 17 == 0, t % 23 == 0, t % 29 == 0
        last = terminated or truncated
        successor = look()
        obs = look() if last else successor
        flags = (np.bool_(terminated or life), np.bool_(truncated), np.bool_(last))
        found.append(TimeStep(obs, successor, np.float32(random.normal()), *flags))
    return first, found


def errors_of(
    got: dict[str, np.ndarray],
    wanted: dict[str, np.ndarray],
    error: Callable[[str, np.ndarray, np.ndarray], float] | None = None,
) -> dict[str, float]:
    """The relative error of every array, in the Euclidean norm unless another is given.

    A statistic is the sum of two arrays, the second of which holds what rounding took from the first: they are compared
    as that sum.
    """
    assert set(got) == set(wanted), set(got) ^ set(wanted)
    whole = [name for name in wanted if not name.endswith("_rest")]
    error = error or (lambda _, got, wanted: relative_error(got, wanted))
    return {name: error(name, _with_rest(got, name), _with_rest(wanted, name)) for name in whole}


def worst_error(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> tuple[float, str]:
    """The largest of these errors, and which array has it."""
    return max((error, name) for name, error in errors_of(got, wanted).items())


def _with_rest(arrays: dict[str, np.ndarray], name: str) -> np.ndarray:
    rest = arrays.get(name + "_rest")
    return arrays[name] if rest is None else arrays[name].astype(np.float64) + rest


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    size = np.linalg.norm(b)
    return float(np.linalg.norm(a - b) / (size if size else 1.0))
