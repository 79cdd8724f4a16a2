from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from headrace.envs.minatar import breakout
from tests.envs.minatar.support import Answers, compare, wander

LEFT, RIGHT, STAY = 1, 3, 0


def answers(draws: Any, game: Any) -> Answers:
    return Answers(randint=(lambda n: 0 if draws.from_left else 1,))


def keep_up(game: Any, rng: np.random.Generator) -> int:
    """Follows the ball, with a slip now and then so that corner saves and misses happen too."""
    if rng.random() < 0.02:
        return wander(game, rng)
    ahead = game.ball_x + (1 if game.ball_dir in (1, 2) else -1)
    goal = ahead if rng.random() < 0.5 else game.ball_x
    return LEFT if goal < game.pos else RIGHT if goal > game.pos else STAY


def watch(game: Any) -> Iterator[str]:
    moved_x, moved_y = game.ball_x - game.last_x, game.ball_y - game.last_y
    if game.last_y == 8 and game.ball_y == 8:
        yield "saved under the ball" if game.last_x == game.pos else "saved at the corner"
    if game.last_y == 0:
        yield "at the ceiling"
    if moved_x == 0:
        yield "side wall"
    if game.strike and moved_y != 0:
        yield "passed through a brick"
    if game.brick_map.sum() == 0:
        yield "no brick left"


def check(steps: int) -> None:
    play = compare("breakout", answers, wander, steps=steps, seed=1)
    assert play.episodes > steps / 20
    assert play.reward > steps / 100

    play = compare("breakout", answers, keep_up, steps=steps, seed=2, watch=watch, sticky=0.02, ramping=False)
    assert play.episodes > 20
    assert play.reward > steps / 20
    often = ("saved under the ball", "saved at the corner", "at the ceiling", "side wall", "no brick left")
    assert all(play.events[event] > steps / 1_000 for event in often), play.events
    assert play.events["passed through a brick"] > 0


def test_every_step_is_the_originals() -> None:
    check(12_000)


@pytest.mark.long
def test_every_step_is_the_originals_for_long() -> None:
    check(100_000)


def test_an_episode_starts_on_either_side_half_the_time() -> None:
    left = jax.jit(jax.vmap(breakout.draw))(jax.random.split(jax.random.key(0), 10_000)).from_left
    assert abs(float(left.mean()) - 0.5) < 0.02  # four standard errors
