"""An Octax game as a compiled environment: the four frames of a step are its channels; a new episode follows an end."""

from __future__ import annotations

import re
import warnings
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from octax.env import OctaxEnv
from octax.environments import get_rom_path

from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.octax import GAMES, OctaxRules

SHAPE = (32, 64, 4)
CELL = 8  # pixels along one side of a cell in a picture
# The package writes numbers into arrays of smaller ones and means the remainder; JAX warns of it at every start.
warnings.filterwarnings("ignore", "scatter inputs have incompatible types", FutureWarning)

_GROUND, _LIT = (18, 20, 28), (244, 194, 84)


class CompiledOctax:
    """The package's game; the agent's actions are the game's keys, and one more: no key."""

    def __init__(self, game: str, rules: OctaxRules | None = None) -> None:
        if game not in GAMES:
            raise ValueError(f"unknown Octax game {game!r}")
        self.game, self.rules = game, rules or OctaxRules()
        self._module, self._level = _definition(game)
        keys = tuple(f"key {key:x}" for key in self._module.action_set)
        self.spec = EnvSpec(f"octax/{game}", SHAPE, (*keys, "no key"), low=0, high=1)

    @cached_property
    def _env(self) -> OctaxEnv:
        """Made when first used: its start-up runs the game for a while. The package's own maker changes its modules."""
        with jax.ensure_compile_time_eval():
            return OctaxEnv(
                rom_path=get_rom_path(self._level or self._module.rom_file),
                max_num_steps_per_episodes=self.rules.max_steps,
                action_set=self._module.action_set,
                score_fn=self._module.score_fn,
                terminated_fn=self._module.terminated_fn,
                startup_instructions=getattr(self._module, "startup_instructions", 0),
                custom_startup=getattr(self._module, "custom_startup", None),
                disable_delay=getattr(self._module, "disable_delay", False),
                render_mode=None,
            )

    def init(self, key: Any) -> tuple[Any, jax.Array]:
        state, frames = self._fresh(key)
        return state, _image(frames)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, TimeStep]:
        reached, frames, reward, terminated, truncated, _ = self._env.step(state, action)
        reached = _as(reached, state)
        terminated, truncated = jnp.asarray(terminated, bool), jnp.asarray(truncated, bool)
        truncated = truncated & ~terminated
        last = terminated | truncated
        fresh, first = self._fresh(key)
        after, shown = jax.tree.map(lambda new, old: jnp.where(last, new, old), (fresh, first), (reached, frames))
        reward = jnp.asarray(reward, jnp.float32)
        return after, TimeStep(_image(shown), _image(frames), reward, terminated, truncated, last)

    def render(self, state: Any) -> np.ndarray:
        colours = np.array((_GROUND, _LIT), np.uint8)
        return colours[np.asarray(state.display).T.astype(int)].repeat(CELL, axis=0).repeat(CELL, axis=1)

    def _fresh(self, key: Any) -> tuple[Any, jax.Array]:
        """The start of an episode, which only the emulator's own random numbers make different from another."""
        start = jax.tree.map(jnp.asarray, self._env.cached_reset_state)
        state, frames, _ = self._env.reset(jax.random.key_data(key))
        return _as(state, start), frames


def _as(state: Any, like: Any) -> Any:
    """The package counts in Python numbers at first and in arrays later; here the types stay what they were."""
    return jax.tree.map(lambda x, y: jnp.asarray(x, jnp.asarray(y).dtype), state, like)


def _image(frames: jax.Array) -> jax.Array:
    """(frames, width, height) as (height, width, frames)."""
    return jnp.transpose(frames, (2, 1, 0)).astype(jnp.float32)


def _definition(game: str) -> tuple[ModuleType, str]:
    """The package's module for the game, and the file of the level that the game's name ends in, if it does."""
    stem, level = re.fullmatch(r"(\D+?)(\d\w*)?", game).groups()  # type: ignore[union-attr]
    return import_module(f"octax.environments.{stem}"), f"{game}.ch8" if level else ""
