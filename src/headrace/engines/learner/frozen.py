"""An agent that no longer learns: parameters and normaliser of a saved stream, neither of which changes any more."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np

from headrace.agents import Agent, NoAuxiliary, StreamQ, Unfiltered
from headrace.engines.learner.block import Block, check_fit
from headrace.envs.base import EnvSpec
from headrace.learner import library
from headrace.normalize import Moments, empty_moments, limited, standardised

PARAMETERS, SCALE = "stream/agent/params/", "stream/obs_scale/"


class FrozenPolicy:
    """Parameters and normaliser of a saved stream, neither of which changes any more."""

    def __init__(self, agent: Agent, spec: EnvSpec, arrays: dict[str, np.ndarray], *, eps: float, seed: int) -> None:
        # Whatever else was learnt beside Q plays no part in choosing.
        bare = replace(agent, td=StreamQ(), aux=NoAuxiliary(), td_filter=Unfiltered())
        self._block, self._observations = Block(bare, spec, seed=0, steps=1), agent.observations
        for name, place in self._block.arrays.items():
            if name.startswith(PARAMETERS):
                check_fit(name, place, arrays)
                place[...] = arrays[name]
        self._scale = _scale_of(arrays, spec)
        latent, hidden = self._block.arrays[f"{PARAMETERS}projection/0/w"].shape
        self._found = [np.zeros(size, np.float32) for size in (spec.n_actions, latent, hidden)]
        self._eps, self._key, self._taken = eps, (seed >> 32, seed & 0xFFFFFFFF), 0

    def __call__(self, obs: np.ndarray) -> int:
        self._taken += 1
        explore, action = _uniform(_fold_in(_fold_in(self._key, self._taken), 0), 2)
        q, actions = self.q(obs), len(self._found[0])
        any_action = min(int(np.float32(action) * np.float32(actions)), actions - 1)
        return any_action if explore < self._eps else int(q.argmax())

    def q(self, obs: np.ndarray) -> np.ndarray:
        """Q(s, .) of an observation as the environment gives it."""
        self._evaluate(obs)
        return self._found[0].copy()

    def latent(self, obs: np.ndarray) -> np.ndarray:
        """The encoder's output for an observation, flattened."""
        self._evaluate(obs)
        return self._found[1].copy()

    def _evaluate(self, obs: np.ndarray) -> None:
        seen = standardised(self._scale, np.asarray(obs, np.float32))
        self._block.evaluate(limited(self._observations, seen, np), *self._found)


def _scale_of(arrays: dict[str, np.ndarray], spec: EnvSpec) -> Moments:
    """The scale of a stack of raw frames: frozen, it is the same for each of them."""
    for name, like in zip(Moments._fields, empty_moments(spec.frame_shape), strict=True):
        check_fit(SCALE + name, like, arrays)
    count, *parts = (arrays[SCALE + name] for name in Moments._fields)
    return Moments(count, *(np.concatenate([part] * spec.frames, axis=-1) for part in parts))


def _fold_in(key: tuple[int, int], data: int) -> tuple[int, int]:
    """As `jax.random.fold_in`; also the `data`-th of the keys into which `jax.random.split` divides a key."""
    out = (ctypes.c_uint32 * 2)()
    library().hr_random_fold_in((ctypes.c_uint32 * 2)(*key), ctypes.c_uint32(data), out)
    return out[0], out[1]


def _uniform(key: tuple[int, int], n: int) -> np.ndarray:
    out = np.zeros(n, np.float32)
    library().hr_random_uniform((ctypes.c_uint32 * 2)(*key), ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(n))
    return out
