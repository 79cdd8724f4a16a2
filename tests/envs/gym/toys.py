"""Environments of a user's own, registered by being imported."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Image(gymnasium.Env):
    """A dot on a grey ground without a channel axis; action 2 of 1..3 stays, the others move; ten steps."""

    observation_space = Box(0, 255, (12, 12), np.uint8)
    action_space = Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.at, self.taken = int(self.np_random.integers(12)), 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in (1, 2, 3), action
        self.at, self.taken = (self.at + action - 2) % 12, self.taken + 1
        return self._seen(), float(self.at), False, self.taken == 10, {}

    def _seen(self) -> np.ndarray:
        image = np.full((12, 12), 40, np.uint8)
        image[self.at, 3] = 255
        return image


class Vector(gymnasium.Env):
    """Four numbers; what goes wrong with it, and when, are class attributes."""

    observation_space = Box(-1, 1, (4,), np.float64)
    action_space = Discrete(2)
    fault, at = "", 40

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.taken = 0
        return self.np_random.uniform(-1, 1, 4), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.taken += 1
        if type(self).fault == "raise" and self.taken == type(self).at:
            raise RuntimeError("the robot fell over")
        size = 5 if type(self).fault == "shape" and self.taken == type(self).at else 4
        return self.np_random.uniform(-1, 1, size), float(action), False, self.taken == 60, {}


class Opaque(Vector):
    """Holds something that cannot be saved."""

    def __init__(self) -> None:
        self.handle = object()


class Shared(Vector):
    """Two names for one array."""

    def __init__(self) -> None:
        self.board = np.zeros(3)
        self.view = self.board[1:]


class SavesItself(Opaque):
    """Knows how to be saved."""

    def save(self) -> dict[str, Any]:
        return {"taken": self.taken, "random": self.np_random.bit_generator.state}

    def restore(self, saved: dict[str, Any]) -> None:
        self.taken = saved["taken"]
        self.np_random.bit_generator.state = saved["random"]


class Small(Image):
    """An image that no encoder of this size fits."""

    observation_space = Box(0, 255, (20, 20, 3), np.uint8)

    def _seen(self) -> np.ndarray:
        return np.zeros((20, 20, 3), np.uint8)


class Deep(Image):
    """Four axes."""

    observation_space = Box(0, 255, (4, 4, 4, 4), np.uint8)


class Samples(Vector):
    """Takes its numbers from its spaces."""

    def __init__(self) -> None:
        self.observation_space, self.other = Box(-1, 1, (4,), np.float64), Dict({"x": Discrete(1000)})

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        _, _, terminated, truncated, facts = super().step(action)
        return self.observation_space.sample(), float(self.other.sample()["x"]), terminated, truncated, facts


class Unmakable(Vector):
    def __init__(self) -> None:
        raise RuntimeError("no such robot")


class Unresettable(Vector):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        raise RuntimeError("it does not stand up")


for kind in (Image, Vector, Opaque, Shared, SavesItself, Small, Deep, Samples, Unmakable, Unresettable):
    gymnasium.register(f"headrace/{kind.__name__}-v0", kind)
