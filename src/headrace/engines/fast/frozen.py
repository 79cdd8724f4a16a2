"""An agent that no longer learns: parameters and normaliser of a saved stream, neither of which changes any more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.agents import Agent, Limited, NoAuxiliary, StreamQ
from headrace.engines.fast.frame import Entry, check_fit, frame_of
from headrace.engines.fast.kernels.randomness import draw
from headrace.engines.fast.kernels.rules import choose
from headrace.engines.fast.kernels.scales import limit, standardise_frozen
from headrace.engines.fast.machine import carry_out
from headrace.engines.fast.memory import Program
from headrace.engines.fast.networks import DenseLayer, ValuePass
from headrace.engines.fast.starting import key_of
from headrace.engines.fast.warming import compile_beforehand
from headrace.envs.base import EnvSpec

SCALE = "stream/obs_scale"
PARTS = ("mean", "mean_rest", "squares", "squares_rest")


class FrozenPolicy:
    """Parameters and normaliser of a saved stream, neither of which changes any more."""

    def __init__(self, agent: Agent, spec: EnvSpec, arrays: dict[str, np.ndarray], *, eps: float, seed: int) -> None:
        compile_beforehand()
        # Whatever else was learnt beside Q plays no part in choosing.
        frame = frame_of(replace(agent, td=StreamQ(), aux=NoAuxiliary()), spec)
        memory, size = frame.memory, frame.observation_size
        value = ValuePass(frame.encoder, frame.sizes, memory, frame.obs)
        self._raw, moments, count = memory.room(size), memory.room(4 * size), memory.whole(0)
        draws, chance, key = memory.room(2), memory.real(eps), memory.whole(*key_of(seed))
        self._latent, self._action, self._taken = (value.x, frame.sizes.latent), frame.action, frame.step
        program, weights = Program(), frame.value_weights()
        program.emit(standardise_frozen, raw=self._raw, moments=moments, count=count, out=frame.obs, size=size)
        if isinstance(agent.observations, Limited):
            program.emit(limit, x=frame.obs, size=size, most=memory.real(agent.observations.limit))
        value.encode(program, weights)
        self._encode = program.rows()
        DenseLayer(weights.projection).through(program, value)
        value.finish(program, weights)
        program.emit(draw, seed=key, step=self._taken, out=draws, count=2)
        program.emit(
            choose, q=value.q, actions=frame.n_actions, draws=draws, eps=chance, action=self._action,
            greedy=frame.greedy,
        )  # fmt: skip
        self._choose = program.rows()
        self._f, self._s, self._n = memory.allocate()
        self._size, self._shape, self._unchecked = size, spec.observation_shape, _none()
        for entry in frame.entries:
            if entry.name.startswith("stream/agent/params/"):
                check_fit(entry, arrays)
                entry.write(self._f, self._n, arrays[entry.name])
        self._n[count] = _saved(arrays, "count", (), np.int32)
        for i, part in enumerate(PARTS):
            of_frame = _saved(arrays, part, spec.frame_shape, np.float32)
            repeated = np.concatenate([of_frame] * spec.frames, axis=-1)
            self._f[moments + i * size : moments + (i + 1) * size] = repeated.reshape(-1)

    def __call__(self, obs: np.ndarray) -> int:
        self._n[self._taken] += 1
        self._run(self._choose, obs)
        return int(self._n[self._action])

    def latent(self, obs: np.ndarray) -> np.ndarray:
        """The encoder's output for an observation, flattened."""
        self._run(self._encode, obs)
        start, size = self._latent
        return self._f[start : start + size].copy()

    def _run(self, rows: np.ndarray, obs: np.ndarray) -> None:
        self._f[self._raw : self._raw + self._size].reshape(self._shape)[...] = obs
        carry_out(rows, self._f, self._s, self._n, self._unchecked)


def _none() -> np.ndarray:
    return np.zeros(0, np.int64)


def _saved(arrays: dict[str, np.ndarray], part: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    check_fit(Entry(f"{SCALE}/{part}", 0, shape, dtype), arrays)
    return arrays[f"{SCALE}/{part}"]
