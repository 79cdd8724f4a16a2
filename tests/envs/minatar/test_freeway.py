from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from headrace.envs.minatar import freeway
from tests.envs.minatar.support import Answers, compare, wander

UP = 2


def answers(draws: Any, game: Any) -> Answers:
    pauses = draws.pause.astype(int)  # a copy: the original writes into it
    return Answers(randint=(lambda low, high, size: pauses,), rand=(lambda size: np.where(draws.rightward, 0.9, 0.1),))


def hurry(game: Any, rng: np.random.Generator) -> int:
    return UP if rng.random() < 0.9 else wander(game, rng)


class Watch:
    """Names what happened to the chicken between one step and the next."""

    def __init__(self) -> None:
        self.row = 9

    def __call__(self, game: Any) -> Iterator[str]:
        fell, self.row = game.pos - self.row, game.pos
        if fell > 1 and game.terminate_timer < freeway.TIME_LIMIT - 1:
            yield "sent back"
        if fell == 1:
            yield "walked down"
        if fell == -1:
            yield "walked up"
        if any(car[0] in (0, 9) for car in game.cars):
            yield "car at the edge"


def check(steps: int) -> None:
    play = compare("freeway", answers, wander, steps=steps, seed=1, watch=Watch())
    assert play.episodes == steps // 2_501
    assert play.events["walked down"] > steps / 50

    for sticky, ramping in ((0.1, True), (0.0, False)):
        play = compare("freeway", answers, hurry, steps=steps, seed=2, watch=Watch(), sticky=sticky, ramping=ramping)
        assert play.episodes == steps // 2_501
        assert play.reward > steps / 200
        assert play.events["sent back"] - play.reward > steps / 200  # by a car, not by a crossing
        assert play.events["car at the edge"] > steps / 10


def test_every_step_is_the_originals() -> None:
    check(8_000)


@pytest.mark.long
def test_every_step_is_the_originals_for_long() -> None:
    check(100_000)


def test_pauses_and_directions_are_uniform_and_independent() -> None:
    draws = jax.jit(jax.vmap(freeway.draw))(jax.random.split(jax.random.key(0), 2_000))
    kinds = np.asarray(draws.pause * np.where(draws.rightward, 1, -1)).ravel()
    values, counts = np.unique(kinds, return_counts=True)
    np.testing.assert_array_equal(values, [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5])
    assert np.abs(counts / kinds.size - 0.1).max() < 0.0095  # four standard errors of 16,000 draws
