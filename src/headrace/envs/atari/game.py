"""An Atari game as a host environment: one grey frame of 84 x 84 a step, of which the stream stacks four."""

from __future__ import annotations

from typing import Any

import numpy as np
from ale_py import Action, roms

from headrace.envs.atari import GAMES, REPLAYED, AtariRules, LivesIgnored
from headrace.envs.atari.console import Console, ReplayedConsole
from headrace.envs.atari.pixels import Picture
from headrace.envs.base import EnvSpec, TimeStep, check_action, check_saved

SIZE = (84, 84)
STACK = 4  # frames in an observation
SKIP = 4  # emulator frames that an action lasts


class AtariGame:
    """A game in the emulator; the agent's actions are numbers into its minimal action set."""

    def __init__(self, game: str, rules: AtariRules | None = None) -> None:
        rom = roms.get_rom_path(game) if game in GAMES else None
        if rom is None:
            raise ValueError(f"unknown Atari game {game!r}")
        self.rules, self._rom = rules or AtariRules(), rom
        self._console = ReplayedConsole if game in REPLAYED else Console
        self._load(seed=0)
        self._actions = self._emulator.getMinimalActionSet()
        names = tuple(action.name.lower() for action in self._actions)
        self.spec = EnvSpec(f"atari/{game}", (*SIZE, STACK), names, frames=STACK, dtype="uint8", low=0, high=255)
        self._random, self._lives, self._held = np.random.default_rng(0), 0, Action.NOOP

    def reset(self, seed: int) -> np.ndarray:
        self._load(seed)
        self._random = np.random.default_rng(seed)
        return self._new_game()

    def step(self, action: int) -> TimeStep:
        check_action(self.spec, action)
        reward = self._play(self._actions[action], SKIP)
        over, successor = self._over(), self._frame()
        truncated = not over and self._emulator.getEpisodeFrameNumber() >= self.rules.max_frames
        terminated = over or self._life_ended()
        last = over or truncated
        obs = self._new_game() if last else successor
        return TimeStep(obs, successor, float(reward), terminated, truncated, last)

    def save(self) -> dict[str, Any] | None:
        """All of the game's state; None in the rare moment at which its console has none that is whole."""
        emulator = self._emulator.save()
        if emulator is None:
            return None
        return {
            "env": self.spec.name,
            "emulator": emulator,
            "random": self._random.bit_generator.state,
            "lives": self._lives,
            "held": self._held.value,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Makes the game what it was; its picture may be drawn anew only at the next step."""
        check_saved(self.spec, saved)
        self._emulator.restore(saved["emulator"])
        self._random.bit_generator.state = saved["random"]
        self._lives, self._held = saved["lives"], Action(saved["held"])

    def render(self) -> np.ndarray:
        return self._emulator.getScreenRGB()

    def _load(self, seed: int) -> None:
        """A fresh emulator; actions stick outside of it."""
        self._emulator = self._console(self._rom, seed)
        self._picture = Picture(self._emulator, SIZE)

    def _new_game(self) -> np.ndarray:
        """Begins a game: some idle frames, then FIRE where there is such an action, as many games wait for it."""
        idle = int(self._random.integers(1, self.rules.noops + 1)) if self.rules.noops else 0
        self._emulator.reset_game()
        self._held = Action.NOOP
        self._picture.look_alone()
        self._play(Action.NOOP, idle)
        if Action.FIRE in self._actions:
            self._play(Action.FIRE, SKIP)
        if self._over():
            return self._new_game()
        self._lives = self._emulator.lives()
        return self._frame()

    def _play(self, action: Action, frames: int) -> int:
        """The action for that many frames, or fewer where the game ends; the reward. Leaves the last two on screen."""
        reward = 0
        for left in reversed(range(frames)):
            reward += self._emulator.act(self._stuck(action))
            if left < 2:
                self._picture.look(left)
            if self._over():
                if left > 0:  # the frame before this one was not looked at
                    self._picture.look_alone()
                break
        return reward

    def _stuck(self, action: Action) -> Action:
        """What the console is given in this frame: at random the action of the frame before."""
        if not self.rules.sticky or self._random.random() >= self.rules.sticky:
            self._held = action
        return self._held

    def _frame(self) -> np.ndarray:
        return self._picture.small()[..., None]

    def _over(self) -> bool:
        return self._emulator.game_over(with_truncation=False)

    def _life_ended(self) -> bool:
        """Whether a life was lost since the last step and learning takes that for the end."""
        before, self._lives = self._lives, self._emulator.lives()
        return self._lives < before and not isinstance(self.rules.lives, LivesIgnored)
