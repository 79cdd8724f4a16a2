"""Environments in another form: a compiled one stepped from Python, and one that shows stacks of raw frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from headrace.envs.base import CompiledEnv, HostEnv, TimeStep, check_action, check_saved
from headrace.envs.packing import pack, unpack


class Hosted:
    """A compiled environment stepped from Python.

    The key of a step follows from the seed and the number of steps taken.
    """

    def __init__(self, env: CompiledEnv) -> None:
        self._env, self.spec = env, env.spec
        self._make_key, self._init, self._step, self._leaves, self._rebuilt = _programs()

    def reset(self, seed: int) -> np.ndarray:
        self._seed, self._key, self._taken = seed, self._make_key(seed), 0
        self.state, obs = self._init(self._env, self._key)
        return np.asarray(obs)

    def step(self, action: int) -> TimeStep:
        check_action(self.spec, action)
        self._taken += 1
        self.state, seen = self._step(self._env, self.state, np.int32(action), self._key, self._taken)
        obs, successor, *rest = seen
        return TimeStep(np.asarray(obs), np.asarray(successor), *(np.asarray(x).item() for x in rest))

    def save(self) -> dict[str, Any]:
        leaves = [pack(np.asarray(leaf)) for leaf in self._leaves(self.state)]
        return {"env": self.spec.name, "seed": self._seed, "taken": self._taken, "state": leaves}

    def restore(self, saved: dict[str, Any]) -> None:
        check_saved(self.spec, saved)
        self.reset(saved["seed"])
        self._taken = saved["taken"]
        self.state = self._rebuilt(self.state, [unpack(leaf) for leaf in saved["state"]])

    def render(self) -> np.ndarray:
        return self._env.render(self.state)


@cache
def _programs() -> tuple[Callable[..., Any], ...]:
    """Making a key; starting and stepping, compiled once for an environment; a state's arrays, and a state of them."""
    import jax

    def init(env: CompiledEnv, key: Any) -> Any:
        return env.init(key)

    def step(env: CompiledEnv, state: Any, action: Any, key: Any, count: Any) -> Any:
        return env.step(state, action, jax.random.fold_in(key, count))

    def rebuilt(like: Any, leaves: list[np.ndarray]) -> Any:
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    return jax.random.key, jax.jit(init, static_argnums=0), jax.jit(step, static_argnums=0), jax.tree.leaves, rebuilt


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
