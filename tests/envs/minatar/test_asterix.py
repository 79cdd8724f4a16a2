from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.envs.minatar import asterix
from tests.envs.minatar.support import Answers, below, compare, wander

MOVES = {0: (0, 0), 1: (-1, 0), 2: (0, -1), 3: (1, 0), 4: (0, 1)}  # column and row that each action adds


def answers(draws: Any, game: Any) -> Answers:
    return Answers(
        rand=(below(draws.from_left), below(draws.gold)), randint=(lambda n: int(draws.place) * n // asterix.PLACES,)
    )


def dodge(game: Any, rng: np.random.Generator) -> int:
    """Of the moves that no enemy can meet now or next, the one nearest to treasure; a random one now and then."""
    if rng.random() < 0.01:
        return wander(game, rng)
    cells = {
        action: (min(9, max(0, game.player_x + x)), min(8, max(1, game.player_y + y)))
        for action, (x, y) in MOVES.items()
    }
    return min(cells, key=lambda action: (*_danger(game, *cells[action]), rng.random()))


def _danger(game: Any, x: int, y: int) -> tuple[float, float]:
    met = _enemies_within(game, x, y, 2)
    # In an empty row an enemy may appear at the wall.
    at_wall = x in (0, 9) and game.entities[y - 1] is None and game.spawn_timer <= 1
    golds = [abs(e[0] - x) + abs(e[1] - y) for e in game.entities if e is not None and e[3]]
    return met + at_wall, min(golds, default=abs(x - 5))


def _enemies_within(game: Any, x: int, y: int, reach: int) -> int:
    entity = game.entities[y - 1]
    if entity is None or entity[3]:
        return 0
    return int(0 <= (x - entity[0]) * (1 if entity[2] else -1) < reach)


def watch(game: Any) -> Iterator[str]:
    if all(entity is not None for entity in game.entities):
        yield "no lane free"
    if game.spawn_speed == 1:
        yield "a new thing on every step"
    if game.move_speed == 1:
        yield "a move on every step"
    if game.spawn_speed == 1 and game.move_speed == 1:
        yield "top difficulty"


def check(steps: int) -> None:
    play = compare("asterix", answers, wander, steps=steps, seed=1)
    assert play.episodes > steps / 200
    assert play.reward > steps / 200

    play = compare("asterix", answers, dodge, steps=steps, seed=2, watch=watch, sticky=0.02)
    assert play.episodes >= 5
    assert play.reward > steps / 100
    assert play.ramps > steps / 200
    assert play.events["top difficulty"] > 100, play.events

    play = compare("asterix", answers, dodge, steps=steps, seed=3, watch=watch, ramping=False)
    assert play.ramps == 0
    assert play.reward > steps / 100


def test_every_step_is_the_originals() -> None:
    check(8_000)


@pytest.mark.long
def test_every_step_is_the_originals_for_long() -> None:
    check(100_000)


def test_one_thing_in_three_is_gold_and_half_come_from_the_left() -> None:
    draws = jax.jit(jax.vmap(asterix.draw))(jax.random.split(jax.random.key(0), 20_000))
    assert abs(float(draws.gold.mean()) - 1 / 3) < 0.0134  # four standard errors
    assert abs(float(draws.from_left.mean()) - 1 / 2) < 0.0142
    assert abs(float((draws.from_left & draws.gold).mean()) - 1 / 6) < 0.0106
    assert int(draws.place.min()) >= 0
    assert int(draws.place.max()) < asterix.PLACES


@pytest.mark.parametrize("free", range(1, 9))
def test_each_free_lane_is_chosen_by_equally_many_places(free: int) -> None:
    places = jnp.arange(asterix.PLACES)
    draws = asterix.Draws(jnp.ones_like(places, bool), jnp.ones_like(places, bool), places)
    start = asterix.reset(jax.tree.map(lambda d: d[0], draws))
    present = np.random.default_rng(free).permutation(8) >= free
    due = start._replace(present=jnp.asarray(present), spawn_timer=jnp.int32(0))
    after, _, _ = jax.jit(jax.vmap(lambda d: asterix.step(due, 0, d, True)))(draws)
    counts = np.asarray(after.present & ~present).sum(axis=0)
    np.testing.assert_array_equal(counts, np.where(present, 0, asterix.PLACES // free))
