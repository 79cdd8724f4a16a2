"""MinAtar's games in C as a host environment that can be saved in mid-game.

With the same seed they play what `minatar.Environment` of the authors' package plays, to the bit.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any

import numpy as np

from headrace.envs.base import EnvSpec, TimeStep, check_action, check_saved
from headrace.envs.minatar import ACTION_NAMES, check_settings, render_board
from headrace.envs.packing import pack, unpack
from headrace.errors import CheckpointDamaged
from headrace.learner import library

FORMAT = 1  # of a saved game; raised whenever the C structs change


class Rules(Structure):
    """The struct `hr_rules`, up to its functions."""

    _fields_ = [("name", c_char_p), ("channels", c_int32), ("actions", c_int32), ("action", c_int32 * 6)]


_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "hr_game_size": (c_size_t, ()),
    "hr_game_saved": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "hr_game_begin": (None, (c_void_p, POINTER(Rules), c_double, c_int, c_uint32, c_void_p)),
    "hr_game_step": (c_int, (c_void_p, c_int32, c_void_p, c_void_p, POINTER(c_float))),
    "hr_game_show": (None, (c_void_p, c_void_p)),
    "hr_game_sound": (c_int, (c_void_p,)),
}


@cache
def _library() -> ctypes.CDLL:
    c = library()
    for name, (result, arguments) in _PROTOTYPES.items():
        getattr(c, name).restype, getattr(c, name).argtypes = result, arguments
    return c


class HostMinAtar:
    """One of the five games; an episode that ended is followed at once by the next."""

    def __init__(self, game: str, sticky: float = 0.1, ramping: bool = True, seed: int = 0) -> None:
        check_settings(game, sticky)
        self._c = _library()
        self._rules = Rules.in_dll(self._c, f"hr_{game}")
        self._settings = sticky, bool(ramping)
        names = tuple(ACTION_NAMES[action] for action in self._rules.action[: self._rules.actions])
        self.spec = EnvSpec(f"minatar/{game}", (10, 10, self._rules.channels), names, low=0, high=1)
        self._memory, self._reward = np.zeros(self._c.hr_game_size(), np.uint8), c_float()
        self.pointer = self._memory.ctypes.data  # to the struct `hr_game`
        self._saved = self._words()
        self.reset(seed)

    def _words(self) -> np.ndarray:
        """Everything of a game that changes."""
        count = c_size_t()
        start = self._c.hr_game_saved(self.pointer, count) - self.pointer
        return self._memory[start : start + 4 * count.value].view(np.uint32)

    def reset(self, seed: int) -> np.ndarray:
        frame = self._frame()
        self._c.hr_game_begin(self.pointer, self._rules, *self._settings, seed, frame.ctypes.data)
        return frame

    def step(self, action: int) -> TimeStep:
        check_action(self.spec, action)
        successor, obs, reward = self._frame(), self._frame(), self._reward
        over = bool(self._c.hr_game_step(self.pointer, action, successor.ctypes.data, obs.ctypes.data, reward))
        return TimeStep(obs if over else successor, successor, reward.value, over, truncated=False, last=over)

    def save(self) -> dict[str, Any]:
        sticky, ramping = self._settings
        state = pack(self._saved.astype("<u4"))
        return {"env": self.spec.name, "format": FORMAT, "sticky": sticky, "ramping": ramping, "state": state}

    def restore(self, saved: dict[str, Any]) -> None:
        """Makes the game what it was when it was saved; an error, and nothing changed, where that is no state of it."""
        check_saved(self.spec, saved)
        if saved.get("format") != FORMAT:
            raise CheckpointDamaged(f"{self.spec.name} was saved by another version of headrace")
        words, before, settings = unpack(saved["state"]), self._saved.copy(), self._settings
        self._settings = saved["sticky"], saved["ramping"]
        self.reset(0)  # with these settings
        if words.shape == before.shape and words.dtype == before.dtype:
            self._saved[...] = words
            if self._c.hr_game_sound(self.pointer):
                return
        self._settings = settings
        self.reset(0)
        self._saved[...] = before
        raise CheckpointDamaged(f"the saved state of {self.spec.name} is no situation of the game")

    def render(self) -> np.ndarray:
        frame = self._frame()
        self._c.hr_game_show(self.pointer, frame.ctypes.data)
        return render_board(frame)

    def _frame(self) -> np.ndarray:
        return np.empty(self.spec.frame_shape, np.float32)
