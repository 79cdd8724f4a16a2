"""A MinAtar game as a compiled environment: sticky actions, and a new episode as soon as one ends."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.minatar import ACTION_NAMES, GAMES, check_settings, render_board

__all__ = ["GAMES", "CompiledMinAtar", "GameDraws", "GameState", "render_board"]


class GameState(NamedTuple):
    game: Any
    last_action: jax.Array  # the action last taken, 0..5; like the original, it outlives the episode


class GameDraws(NamedTuple):
    """Every random outcome of one step; which of them matter depends on the state."""

    repeat: jax.Array  # whether the last action is taken again instead of the chosen one
    game: Any
    restart: Any


class CompiledMinAtar:
    """One of the five games; the agent's actions are numbers into the game's minimal action set."""

    def __init__(self, game: str, sticky: float = 0.1, ramping: bool = True) -> None:
        check_settings(game, sticky)
        self.rules = import_module(f"headrace.envs.minatar.{game}")
        self.sticky = sticky
        self.ramping = ramping
        names = tuple(ACTION_NAMES[action] for action in self.rules.ACTIONS)
        self.spec = EnvSpec(f"minatar/{game}", (10, 10, self.rules.CHANNELS), names, low=0, high=1)

    def init(self, key: Any) -> tuple[GameState, jax.Array]:
        game = self.rules.reset(self.rules.draw(key))
        return GameState(game, jnp.int32(0)), self._observe(game)

    def step(self, state: GameState, action: Any, key: Any) -> tuple[GameState, TimeStep]:
        return self.take(state, jnp.asarray(self.rules.ACTIONS, jnp.int32)[action], self.draw(key))

    def render(self, state: GameState) -> np.ndarray:
        return render_board(np.asarray(self._observe(state.game)))

    def draw(self, key: Any) -> GameDraws:
        """The random outcomes of one step, with the distribution of the original."""
        repeat_key, game_key, restart_key = jax.random.split(key, 3)
        repeat = jax.random.bernoulli(repeat_key, self.sticky)
        return GameDraws(repeat, self.rules.draw(game_key), self.rules.draw(restart_key))

    def take(self, state: GameState, action: Any, draws: GameDraws) -> tuple[GameState, TimeStep]:
        """One step with the given outcomes; `action` is MinAtar's own number, 0..5."""
        taken = jnp.where(draws.repeat, state.last_action, action).astype(jnp.int32)
        reached, reward, terminated = self.rules.step(state.game, taken, draws.game, self.ramping)
        fresh = self.rules.reset(draws.restart)
        game = jax.tree.map(lambda new, old: jnp.where(terminated, new, old), fresh, reached)
        timestep = TimeStep(
            obs=self._observe(game),
            successor=self._observe(reached),
            reward=reward,
            terminated=terminated,
            truncated=jnp.zeros_like(terminated),
            last=terminated,
        )
        return GameState(game, taken), timestep

    def _observe(self, game: Any) -> jax.Array:
        return self.rules.observe(game).astype(jnp.float32)
