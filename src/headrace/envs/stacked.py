"""An environment that shows stacks of raw frames, for an agent that no longer learns."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.envs.base import HostEnv, TimeStep


class Stacked:
    """Whole observations, frame upon frame, of an environment that shows single frames.

    A stream that learns standardises each frame when it is new and stacks what comes out, since its statistics move.
    Once they are frozen the order no longer matters, and raw frames can be stacked first.
    """

    def __init__(self, env: HostEnv) -> None:
        self._env, self.spec = env, env.spec
        self._stack = np.zeros(env.spec.observation_shape, env.spec.dtype)

    def reset(self, seed: int) -> np.ndarray:
        return self._first(self._env.reset(seed))

    def step(self, action: int) -> TimeStep:
        seen = self._env.step(action)
        kept = self._stack[..., seen.successor.shape[-1] :]
        successor = self._stack = np.concatenate([kept, seen.successor], axis=-1)
        return seen._replace(obs=self._first(seen.obs) if seen.last else successor, successor=successor)

    def render(self) -> np.ndarray:
        return self._env.render()

    def _first(self, frame: np.ndarray) -> np.ndarray:
        self._stack = np.concatenate([frame] * self.spec.frames, axis=-1)
        return self._stack


def whole_observations(env: HostEnv) -> Any:
    """The environment as it shows all that an agent sees at once."""
    return env if env.spec.frames == 1 else Stacked(env)
