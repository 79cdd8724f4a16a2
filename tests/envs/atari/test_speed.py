"""What the pipeline costs beside the emulator: a ratio within one run, since no other number means much elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from headrace.envs.atari.game import SKIP, AtariGame
from tests.envs.atari.support import actions, played


@pytest.mark.long
@pytest.mark.parametrize("name", ["pong", "breakout", "boxing", "freeway", "ms_pacman", "seaquest"])
def test_all_but_the_emulator_takes_less_than_a_quarter_of_a_step(name: str) -> None:
    game = AtariGame(name)
    game.reset(0)
    steps, bare = [], []
    for i in range(9):
        chosen = actions(game, 100, i)
        saved = game.save()
        steps.append(_seconds(lambda chosen=chosen: played_plainly(game, chosen)))
        game.restore(saved)
        bare.append(_seconds(lambda chosen=chosen: emulated(game, chosen)))
    whole, emulator = float(np.median(steps)), float(np.median(bare))
    print(f"{name}: {100 / whole:,.0f} steps/s of CPU time, the emulator alone {100 / emulator:,.0f}")
    assert whole - emulator < whole / 4
    assert played(game, [0])


def played_plainly(game: AtariGame, chosen: list[int]) -> None:
    for action in chosen:
        game.step(action)


def emulated(game: AtariGame, chosen: list[int]) -> None:
    for action in chosen:
        for _ in range(SKIP):
            game._emulator.act(game._actions[action])
        if game._over():
            game._emulator.reset_game()


def _seconds(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
