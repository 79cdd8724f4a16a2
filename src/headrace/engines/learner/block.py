"""A learner's block of memory, and the C functions that work on it."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import numpy as np

from headrace.agents import Agent
from headrace.engines.learner.description import Array, Config, Finished, describe
from headrace.envs.base import EnvSpec
from headrace.errors import BadSetting, CheckpointDamaged
from headrace.learner import library

ALIGNMENT = 64
TYPES = (np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_))
VARIANT = "HEADRACE_LEARNER_VARIANT"  # of the instruction set: `_avx512`, `_avx2`, or nothing for the baseline

_FLOATS = ctypes.c_void_p
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "hr_size": (ctypes.c_size_t, (ctypes.POINTER(Config),)),
    "hr_problem": (ctypes.c_char_p, (ctypes.POINTER(Config),)),
    "hr_init": (ctypes.c_void_p, (ctypes.POINTER(Config), ctypes.c_void_p, ctypes.c_uint64)),
    "hr_begin": (None, (ctypes.c_void_p, _FLOATS)),
    "hr_restart": (None, (ctypes.c_void_p, _FLOATS)),
    "hr_action": (ctypes.c_int32, (ctypes.c_void_p,)),
    "hr_learn": (ctypes.c_int, (ctypes.c_void_p, _FLOATS, _FLOATS, ctypes.c_float, ctypes.c_int)),
    "hr_finished": (Finished, (ctypes.c_void_p,)),
    "hr_saved": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(Array))),
    "hr_settle": (None, (ctypes.c_void_p,)),
    "hr_resume": (ctypes.c_int, (ctypes.c_void_p,)),
    "hr_evaluate": (None, (ctypes.c_void_p, _FLOATS, _FLOATS, _FLOATS, _FLOATS)),
}


class Functions:
    """The library's functions, for the widest instruction set of this processor."""

    def __init__(self, ending: str) -> None:
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library(), name + ending)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def widest() -> str:
    """The widest instruction set that both this processor and the library have."""
    found = library().hr_widest
    found.restype = ctypes.c_char_p
    return found().decode()


@cache
def functions() -> Functions:
    return Functions(os.environ.get(VARIANT, widest()))


class Block:
    """An agent's memory: everything that it knows, as named arrays."""

    def __init__(self, agent: Agent, spec: EnvSpec, *, seed: int, steps: int) -> None:
        self.c, config = functions(), describe(agent, spec, steps)
        size = self.c.hr_size(config)
        if not size:
            raise BadSetting(f"the C learner cannot hold this agent: {self.c.hr_problem(config).decode()}")
        room = np.zeros(size + ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        self._bytes = room[start : start + size]
        self.size = size  # bytes
        self.pointer = self.c.hr_init(config, self._bytes.ctypes.data, seed)
        self.arrays = self._named()

    def _named(self) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        array = Array()
        while self.c.hr_saved(self.pointer, len(found), array):
            dtype, shape = TYPES[array.type], tuple(array.shape[: array.dimensions])
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            view = self._bytes[array.offset : array.offset + size].view(dtype).reshape(shape)
            found[array.name.decode()] = view
        return found

    def settled(self) -> dict[str, np.ndarray]:
        """The state in the arrays that the learner goes on with."""
        self.c.hr_settle(self.pointer)
        return self.arrays

    def save(self) -> dict[str, np.ndarray]:
        return {name: view.copy() for name, view in self.settled().items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes the arrays over; an error, and nothing changed, where their names and shapes are not this agent's."""
        for name, view in self.arrays.items():
            check_fit(name, view, arrays)
        for name, view in self.arrays.items():
            view[...] = arrays[name]
        if self.c.hr_resume(self.pointer):
            raise CheckpointDamaged("a count or an action in it is out of range")

    def evaluate(self, obs: np.ndarray, q: np.ndarray, latent: np.ndarray, hidden: np.ndarray) -> None:
        """Q(s, .), the latent and the units before the head, of a standardised observation."""
        pointers = (array.ctypes.data for array in (np.ascontiguousarray(obs, np.float32), q, latent, hidden))
        self.c.hr_evaluate(self.pointer, *pointers)


def check_fit(name: str, view: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """An error where a saved state lacks an array, or has it in another shape."""
    if name not in arrays:
        raise CheckpointDamaged(f"it has no array {name}")
    array = arrays[name]
    if array.shape != view.shape or array.dtype != view.dtype:
        raise CheckpointDamaged(
            f"{name} is {array.dtype}{array.shape} in it, this agent needs {view.dtype}{view.shape}"
        )
