"""A game that cannot be played blind: do what the sign says.

At every step one of two signs is shown, as a coin falls; the action of its number earns 1, any other -1. Signs do not
depend on what is done, so that whoever does not look earns 0 on average at best, however clever, and whoever looks
earns 1. One action is never right. An episode is eight steps, long enough for SPR's window to fill.
"""

from __future__ import annotations

import numpy as np

from headrace.envs.base import EnvSpec, TimeStep

BLIND, BEST = 0.0, 1.0  # mean reward, at most
EPISODE = 8  # steps


def screens() -> np.ndarray:
    """A bar at the left and one at the right of a dark screen."""
    shown = np.zeros((2, 16, 16, 1), np.float32)
    shown[0, 4:12, 3:6] = shown[1, 4:12, 10:13] = 1
    return shown


def vectors() -> np.ndarray:
    """Two directions among eight numbers, most of which never change."""
    return np.eye(2, 8, dtype=np.float32)


class Signs:
    """The game as an environment of the host. `hidden` is how long there is nothing to be seen: the game goes on, its
    rewards too, on an observation that never changes."""

    def __init__(self, pictures: np.ndarray, hidden: int = 0) -> None:
        self.spec = EnvSpec("signs", pictures.shape[1:], ("first", "second", "neither"))
        self.pictures, self._hidden = pictures, hidden

    def reset(self, seed: int) -> np.ndarray:
        self._random, self._taken = np.random.default_rng(seed), 0
        return self._next()

    def step(self, action: int) -> TimeStep:
        reward = 1.0 if action == self._sign else -1.0
        self._taken += 1
        seen, ended = self._next(), self._taken % EPISODE == 0
        return TimeStep(seen, seen, reward, terminated=ended, truncated=False, last=ended)

    def _next(self) -> np.ndarray:
        self._sign = int(self._random.integers(2))
        return self.pictures[self._sign] if self._taken >= self._hidden else np.zeros_like(self.pictures[0])
