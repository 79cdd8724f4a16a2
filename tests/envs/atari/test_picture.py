"""The picture of a game against its definition: the emulator's own greys, the brighter of two, the mean of an area."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from ale_py import Action

from headrace.envs.atari.game import SIZE, SKIP, AtariGame
from headrace.envs.atari.pixels import Picture
from tests.envs.atari.support import actions

# Screens of 210 rows, then 250 (PAL), 230, 220 and 214; a game that ends often; one that is replayed.
GAMES = ("pong", "freeway", "seaquest", "air_raid", "klax", "journey_escape", "pooyan", "carnival", "breakout",
         "tic_tac_toe_3d")  # fmt: skip


class Watched:
    """A console whose every frame is also kept in the emulator's own grey, since the game began."""

    def __init__(self, console: Any) -> None:
        self._console, self.frames = console, [console.getScreenGrayscale()]
        self.ended: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console, name)

    def act(self, action: Action) -> int:
        reward = self._console.act(action)
        self.frames.append(self._console.getScreenGrayscale())
        return reward

    def reset_game(self) -> None:
        self._console.reset_game()
        self.ended, self.frames = self.frames, [self._console.getScreenGrayscale()]


def watched(name: str, seed: int) -> AtariGame:
    game = AtariGame(name)
    game.reset(seed)
    watch(game)
    return game


def watch(game: AtariGame) -> None:
    game._emulator = Watched(game._emulator)


def defined(frames: list[np.ndarray]) -> np.ndarray:
    """Exact sums of whole numbers, one division, halves to even."""
    image = np.maximum.reduce(frames)
    sums = units(image.shape[0], SIZE[0]) @ image @ units(image.shape[1], SIZE[1]).T
    return np.rint(sums / image.size).astype(np.uint8)[..., None]


@cache
def units(length: int, to: int) -> np.ndarray:
    """How many units of each old pixel are in every new one: cut every old pixel into `to`, and collect `length`."""
    owner = np.repeat(np.arange(length), to).reshape(to, length)
    return np.stack([np.bincount(row, minlength=length) for row in owner]).astype(np.float64)


def follow(game: AtariGame, chosen: list[int]) -> dict[str, int]:
    """Plays, and compares what is shown with the definition at every step; how often games ended."""
    counted = {"last": 0, "within": 0}
    for action in chosen:
        before = len(game._emulator.frames)
        seen = game.step(action)
        frames = game._emulator.ended if seen.last else game._emulator.frames
        taken = len(frames) - before
        within = seen.last and taken < SKIP  # its last frame is shown alone
        np.testing.assert_array_equal(seen.successor, defined(frames[-1:] if within else frames[-2:]))
        if seen.last:
            np.testing.assert_array_equal(seen.obs, defined(game._emulator.frames[-2:]))
        counted["last"] += seen.last
        counted["within"] += within
    return counted


@pytest.mark.parametrize("name", GAMES)
def test_every_frame_is_what_its_definition_says(name: str) -> None:
    game = watched(name, 1)
    first = follow(game, actions(game, 220, 2))
    saved = json.loads(json.dumps(game.save()))
    game.reset(4)
    watch(game)
    follow(game, actions(game, 60, 5))
    fresh = AtariGame(name)
    fresh.restore(saved)
    watch(fresh)
    follow(fresh, actions(game, 60, 6))
    assert first["last"] > 0 or name != "breakout"


def test_games_that_end_within_an_action_too() -> None:
    game = watched("breakout", 0)
    counted = follow(game, actions(game, 1_000, 3))
    assert counted["within"] > 2


def test_what_was_shown_does_not_change_afterwards() -> None:
    game = AtariGame("freeway")
    kept = [game.reset(0)]
    kept += [game.step(action).successor for action in actions(game, 30, 0)]
    game.reset(0)
    again = [game.step(action).successor for action in actions(game, 30, 0)]
    np.testing.assert_array_equal(kept[1:], again)
    assert len({frame.tobytes() for frame in kept}) > 20


class Colours:
    """An emulator that shows what it is given, in a palette of its own: no colour is black, the first least of all."""

    def __init__(self) -> None:
        self.screen, self.asked = np.zeros((210, 160), np.uint8), 0
        self.palette = (np.arange(256) * 7 + 3).astype(np.uint8)

    def getScreenDims(self) -> tuple[int, int]:
        return (210, 160)

    def getScreen(self, out: np.ndarray) -> None:
        out[:] = self.screen

    def getScreenGrayscale(self) -> np.ndarray:
        self.asked += 1
        return self.palette[self.screen]


def test_colours_are_learnt_when_they_are_first_met_and_never_again() -> None:
    emulator, random = Colours(), np.random.default_rng(0)
    picture = Picture(emulator, SIZE)
    np.testing.assert_array_equal(picture.small(), np.full(SIZE, 3))
    shown = [emulator.getScreenGrayscale()] * 2
    for i in range(60):
        rows = random.integers(210, size=3)
        emulator.screen[rows, 80:] = random.integers(8 * (1 + i // 2), size=(3, 80))
        if i % 8 > 5:
            emulator.screen[:] = 0  # as in the beginning
        picture.look(i % 2)
        shown = [shown[1], emulator.getScreenGrayscale()]
        if i % 3 == 0:
            np.testing.assert_array_equal(picture.small()[..., None], defined(shown))
    emulator.screen[:] = np.arange(160)
    picture.look_alone()
    emulator.asked = 0
    for _ in range(10):
        emulator.screen[:] = random.integers(160, size=(210, 160))
        picture.look(0)
    assert emulator.asked == 0
