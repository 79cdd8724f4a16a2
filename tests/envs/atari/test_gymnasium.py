"""Beside Gymnasium's own preprocessing, in what both are meant to do alike.

They differ by design in how a game begins (FIRE; the first observation), and in that an action here lasts four frames
also where a life is lost in the middle of it. So the comparison begins after the start, from one and the same state of
the emulator, and goes on from one such state after every lost life.
"""

from __future__ import annotations

from base64 import b64decode

import gymnasium
import numpy as np
import pytest
from ale_py import ALEState
from gymnasium.wrappers import AtariPreprocessing

from headrace.envs.atari.game import AtariGame
from tests.envs.atari.support import actions

pytest.importorskip("cv2", reason="Gymnasium's preprocessing needs OpenCV")


@pytest.mark.parametrize("name", ["breakout", "carnival", "ms_pacman", "pong", "qbert", "space_invaders"])
def test_frames_rewards_and_lives_agree_step_by_step(name: str) -> None:
    mine = AtariGame(name)
    theirs = _preprocessed(name)
    mine.reset(3)
    theirs.reset(seed=3)
    _align(theirs, mine)
    ends = 0
    for action in actions(mine, 250, 11):
        seen = mine.step(action)
        frame, reward, terminated, truncated, _ = theirs.step(action)
        assert seen.reward == reward
        assert (seen.terminated, seen.truncated) == (terminated, truncated)
        if seen.terminated:
            ends += 1
            _align(theirs, mine)
            continue
        difference = np.abs(seen.successor[..., 0].astype(int) - frame)
        assert difference.max() <= 1  # halves are rounded one way or the other
        assert (difference > 0).mean() < 0.01
    assert ends > 0 or name in ("pong", "carnival")


def _align(theirs: AtariPreprocessing, mine: AtariGame) -> None:
    emulator = theirs.unwrapped.ale
    emulator.act(0)  # or Q*bert would go on differently, see AtariGame.restore
    emulator.restoreState(ALEState(b64decode(mine.save()["emulator"])))
    theirs.lives, theirs.game_over = emulator.lives(), False


def _preprocessed(name: str) -> AtariPreprocessing:
    import ale_py

    gymnasium.register_envs(ale_py)
    camel = "".join(word.capitalize() for word in name.split("_"))
    inner = gymnasium.make(
        f"ALE/{camel}-v5", frameskip=1, repeat_action_probability=0.0, full_action_space=False, disable_env_checker=True
    )
    return AtariPreprocessing(
        inner, noop_max=0, frame_skip=4, screen_size=84, terminal_on_life_loss=True, grayscale_obs=True
    )
