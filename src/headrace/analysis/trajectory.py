"""The fixed trajectory on which encoders are compared: the same observations for every agent and every checkpoint.

The paper says "a random trajectory of 5000 steps". Here it is that of a uniformly random policy from a fixed seed, so
that it depends on the environment alone: no agent is measured on states that its own policy prefers. Episodes follow
one another until there are enough observations. What a game's state was at each of them is kept where the game is
written in this package.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from headrace.envs.base import EnvSpec
from headrace.envs.hosted import Hosted
from headrace.envs.registry import Environment
from headrace.errors import BadSetting, require_package

LENGTH, SEED = 5000, 2026


class Trajectory(NamedTuple):
    spec: EnvSpec
    observations: np.ndarray  # stacked as an agent sees them, not standardised
    episode: np.ndarray  # number of the episode that each belongs to
    state: dict[str, np.ndarray]  # variables of the game by name, (observations x size); empty where not known
    policy: str


@lru_cache(maxsize=2)
def trajectory(env: Environment, length: int = LENGTH, seed: int = SEED) -> Trajectory:
    """The environment's trajectory; equal for equal arguments, on every machine that has the same game."""
    if length < 2:
        raise BadSetting(f"a trajectory needs at least 2 steps, got {length}")
    spec, frames, first, state = played(env, length, seed)
    stacked = stack(frames, first, spec.frames)
    return Trajectory(spec, stacked, np.cumsum(first) - 1, state, policy_words(seed))


def policy_words(seed: int = SEED) -> str:
    """The policy as analyses record it: with the length, it says which trajectory they looked at."""
    return f"uniformly random, seed {seed}"


def _actions(spec: EnvSpec, length: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if spec.box:
        return random.uniform(-1, 1, (length, spec.n_actions)).astype(np.float32)
    return random.integers(0, spec.n_actions, length).astype(np.int32)


def played(env: Environment, length: int, seed: int) -> tuple[EnvSpec, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Frames, whether each begins an episode, and the game's state, in one form whichever a run was trained in."""
    compiled = env.forms[0] == "compiled"
    if compiled:
        require_package("jax", "jax", f"the trajectory of {env.name} needs the jax")
    game: Any = Hosted(env.compiled()) if compiled else env.host()
    frame, first = game.reset(seed), True
    frames, begins, states = [], [], []
    for action in _actions(game.spec, length, seed):
        frames.append(np.array(frame))
        begins.append(first)
        states.append(_variables(getattr(game.state, "game", None)) if compiled else {})
        timestep = game.step(action if game.spec.box else int(action))
        frame, first = timestep.obs, bool(timestep.last)
    columns = {name: np.stack([state[name] for state in states]) for name in states[0]}
    return game.spec, np.stack(frames), np.array(begins), columns


def _variables(value: Any, name: str = "") -> dict[str, np.ndarray]:
    """The fields of a game's state as vectors, nested ones by their dotted names."""
    if hasattr(value, "_asdict"):
        parts = [_variables(inner, f"{name}.{key}" if name else key) for key, inner in value._asdict().items()]
        return {key: column for part in parts for key, column in part.items()}
    return {name: np.asarray(value).reshape(-1).astype(np.float64)} if name else {}


def stack(frames: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    """Each frame with the count - 1 before it in its episode, oldest first; before an episode's first frame, itself."""
    place = np.arange(len(frames))
    start = np.maximum.accumulate(np.where(first, place, 0))
    lags = [np.maximum(place - back, start) for back in range(count - 1, -1, -1)]
    return np.concatenate([frames[lag] for lag in lags], axis=-1)
