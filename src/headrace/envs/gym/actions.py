"""From an agent's action to that of a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from headrace.errors import BadSetting

REMEDY = "A wrapper (--set env.wrappers=my_package.Wrapper) can change that, see gymnasium.wrappers.TransformAction"


def action_space(name: str, space: gymnasium.Space) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """What the environment is given for an agent's action, and the names of the actions, or of a box's coordinates."""
    if isinstance(space, Discrete):
        first = int(space.start)
        return (lambda action: first + action), tuple(str(action) for action in range(int(space.n)))
    if not isinstance(space, Box):
        raise BadSetting(f"{name} has the actions {space}: only a Discrete space or a Box can be learnt. {REMEDY}")
    _require_box(name, space)
    low, high, dtype = space.low.astype(np.float64), space.high.astype(np.float64), space.dtype

    def scaled(action: Any) -> np.ndarray:
        share = (np.clip(np.asarray(action, np.float64), -1, 1) + 1) / 2
        return np.clip(low + share * (high - low), low, high).astype(dtype)

    return scaled, tuple(str(i) for i in range(space.shape[0]))


def _require_box(name: str, space: Box) -> None:
    """An error where a box has no room that a number between -1 and 1 could be scaled to."""
    why = ""
    if len(space.shape) != 1 or 0 in space.shape:
        why = f"has the shape {space.shape}: only a vector of numbers can be learnt"
    elif not np.issubdtype(space.dtype, np.floating):
        why = f"is of {space.dtype}: only real numbers can be learnt in a box, whole ones as a Discrete space"
    elif not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        why = "has no bounds in some direction: actions are scaled to bounds"
    elif not (space.low < space.high).all():
        why = "has a direction without room, in which low is not below high"
    if why:
        raise BadSetting(f"{name}'s box of actions {space} {why}. {REMEDY}")
