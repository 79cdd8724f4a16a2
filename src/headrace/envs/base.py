"""What an environment says, and the two forms an environment can take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np


class TimeStep(NamedTuple):
    """What one action led to.

    `successor` is the observation the action led to, also when the episode ended there; `obs` is what to act on
    next. They differ only where `last` is true, because an environment restarts itself at once.
    `terminated` stops the bootstrap, `truncated` does not; both cut the traces. `last` says that the episode is over;
    it is `terminated or truncated` except where a lost life is terminal for learning while the game goes on.
    """

    obs: Any
    successor: Any
    reward: Any
    terminated: Any
    truncated: Any
    last: Any


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know of an environment before the first step.

    An environment shows one frame a step. Where `frames` is more than 1, the stream stacks that many of an episode's
    latest frames along the last axis, each standardised when it was new; `observation_shape` is that of the stack.
    """

    name: str
    observation_shape: tuple[int, ...]  # of what the agent sees
    actions: tuple[str, ...]  # names of the actions, in the order of their numbers; of a box, of its coordinates
    frames: int = 1  # stacked in one observation, the newest last
    dtype: str = "float32"  # of what the environment shows
    low: float = -math.inf  # the least and the greatest number in it
    high: float = math.inf
    box: bool = False  # whether an action is a number for each name, which the environment clips to [-1, 1] and scales

    def __post_init__(self) -> None:
        if self.frames < 1 or self.observation_shape[-1] % self.frames:
            raise ValueError(f"{self.observation_shape} is no stack of {self.frames} frames along the last axis")

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """The shape of what the environment shows at one step."""
        return one_frame(self.observation_shape, self.frames)


def one_frame(observation_shape: tuple[int, ...], frames: int) -> tuple[int, ...]:
    """The shape of each of the frames that make up an observation."""
    return *observation_shape[:-1], observation_shape[-1] // frames


def check_action(spec: EnvSpec, action: Any) -> None:
    if spec.box:
        given = np.asarray(action, np.float64)
        if given.shape != (spec.n_actions,) or not np.isfinite(given).all():
            raise ValueError(f"an action of {spec.name} is {spec.n_actions} finite numbers, got {action!r}")
    elif not 0 <= action < spec.n_actions:
        raise ValueError(f"{spec.name} has actions 0..{spec.n_actions - 1}, got {action}")


def check_saved(spec: EnvSpec, saved: dict[str, Any]) -> None:
    if saved["env"] != spec.name:
        raise ValueError(f"the saved state is of {saved['env']}, this environment is {spec.name}")


class HostEnv(Protocol):
    """An environment that runs in Python, one step at a time."""

    spec: EnvSpec

    def reset(self, seed: int) -> np.ndarray:
        """Starts the very first episode; everything random afterwards follows from the seed."""

    def step(self, action: Any) -> TimeStep:
        """Takes the action; where the episode ends, a new one is begun at once and its first observation returned."""

    def save(self) -> dict[str, Any] | None:
        """All of the environment's state as a JSON-serialisable dict; None where it cannot be saved."""

    def restore(self, saved: dict[str, Any]) -> None:
        """Makes the environment what it was when `save` was called."""

    def render(self) -> np.ndarray:
        """A picture of the present situation: uint8, (height, width, 3)."""


class CompiledEnv(Protocol):
    """An environment written in JAX: pure functions that can be compiled, vmapped and put inside a scan."""

    spec: EnvSpec

    def init(self, key: Any) -> tuple[Any, Any]:
        """The state and the observation at the start of the very first episode."""

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, TimeStep]:
        """Takes the action; where the episode ends, the returned state is already the next episode's first."""

    def render(self, state: Any) -> np.ndarray:
        """A picture of `state`: uint8, (height, width, 3)."""
