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


class Falls(Vector):
    fault = "raise"


class Grows(Vector):
    fault = "shape"


class OldReset(Vector):
    """As Gym's environments were once reset."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class OldStep(Vector):
    """As Gym's environments once stepped."""

    def step(self, action: int) -> Any:
        seen, reward, terminated, _, facts = super().step(action)
        return seen, reward, terminated, facts


class Unpaid(Vector):
    def step(self, action: int) -> Any:
        seen, _, *rest = super().step(action)
        return seen, None, *rest


class Ragged(Vector):
    def step(self, action: int) -> Any:
        return [1.0, [2.0, 3.0]], *super().step(action)[1:]


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


class Whole(Image):
    """Shows floats where its space says bytes."""

    shown: Any = np.full((12, 12), 255.0)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self.shown, *super().step(action)[1:]


class Bright(Whole):
    shown = np.full((12, 12), 300.0)


class Dim(Whole):
    """As many who scale images to 0..1 forget to say."""

    shown = np.full((12, 12), 0.25)


class Hollow(Whole):
    shown = np.full((12, 12), np.nan)


class Listed(Whole):
    shown = np.full((12, 12), -1).tolist()


class ChannelsFirst(Image):
    """As many libraries for learning want images."""

    observation_space = Box(0, 255, (3, 84, 84), np.uint8)


class FewerChannelsThanRows(Image):
    """Short and wide, but not by so much that its first axis must be channels."""

    observation_space = Box(0, 255, (9, 20, 20), np.uint8)


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


_VECTORS = (Vector, Falls, Grows, OldReset, OldStep, Unpaid, Ragged, Opaque, Shared, SavesItself, Samples)
_IMAGES = (Image, Whole, Bright, Dim, Hollow, Listed, Small, ChannelsFirst, FewerChannelsThanRows, Deep)
for kind in (*_VECTORS, *_IMAGES, Unmakable, Unresettable):
    gymnasium.register(f"headrace/{kind.__name__}-v0", kind)
