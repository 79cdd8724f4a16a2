from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minatar.environments.space_invaders import Env

from headrace.envs.minatar import space_invaders
from tests.envs.minatar.support import Answers, compare, wander

NOOP, LEFT, RIGHT, FIRE = 0, 1, 3, 5
STEP = jax.jit(space_invaders.step)
DRAWS = space_invaders.Draws()


def answers(draws: Any, game: Any) -> Answers:
    return Answers()


def hunt(game: Any, rng: np.random.Generator) -> int:
    """Fires what will hit, keeps out of the way of bombs, and otherwise makes for the nearest alien."""
    if rng.random() < 0.01:
        return wander(game, rng)
    columns = {NOOP: game.pos, LEFT: max(0, game.pos - 1), RIGHT: min(9, game.pos + 1)}
    deadly, risky = game.e_bullet_map[8] + game.alien_map[9], game.e_bullet_map[7]
    if game.shot_timer == 0 and not deadly[game.pos] and _will_hit(game):
        return FIRE
    aliens = np.flatnonzero(game.alien_map.any(axis=0)) + game.alien_dir * (game.alien_map.sum() < 8)
    goal = aliens[np.abs(aliens - game.pos).argmin()]
    return min(columns, key=lambda a: (deadly[columns[a]], risky[columns[a]], abs(columns[a] - goal), rng.random()))


def _will_hit(game: Any) -> bool:
    """Whether a bullet fired now meets an alien, if none other is lost meanwhile."""
    aliens, timer, direction = game.alien_map, game.alien_move_timer, game.alien_dir
    for row in range(8, -1, -1):
        if timer == 0:
            timer = min(int(aliens.sum()), game.enemy_move_interval)
            if aliens[:, 9 if direction > 0 else 0].any():
                direction, aliens = -direction, np.roll(aliens, 1, axis=0)
            else:
                aliens = np.roll(aliens, direction, axis=1)
        if aliens[row, game.pos]:
            return True
        timer -= 1
    return False


def undermine(game: Any, rng: np.random.Generator) -> int:
    """Shoots the right half of the lowest row only and waits at the right, where the rest will not come by."""
    columns = np.flatnonzero(game.alien_map.any(axis=0))
    lowest = np.flatnonzero(game.alien_map[game.alien_map.any(axis=1).nonzero()[0].max()])
    targets = lowest[lowest > columns[0] + 2]
    if game.pos in targets and game.shot_timer == 0:
        return FIRE
    goal = targets[0] if targets.size else 8
    moves = {NOOP: game.pos, LEFT: max(0, game.pos - 1), RIGHT: min(9, game.pos + 1)}
    return min(moves, key=lambda a: (game.e_bullet_map[8, moves[a]], abs(moves[a] - goal), rng.random()))


def watch(game: Any) -> Iterator[str]:
    left = int(game.alien_map.sum())
    assert left > 0
    assert game.alien_move_timer >= 0
    assert game.alien_shot_timer >= 0
    bombed, met = game.e_bullet_map[9, game.pos], game.alien_map[9, game.pos]
    seen = {
        "lost: bomb": game.terminal and bombed,
        "lost: alien": game.terminal and met,
        "lost: invasion": game.terminal and not bombed and not met,
        "one alien left": left == 1,
        "aliens in the lowest row": game.alien_map[9].any(),
        "two shots": game.f_bullet_map.sum() == 2,
        "full speed": game.enemy_move_interval == 6,
    }
    yield from (name for name, is_so in seen.items() if is_so)


def check(steps: int) -> None:
    play = compare("space_invaders", answers, wander, steps=steps, seed=1, sticky=0.1, watch=watch)
    print(play)
    assert play.episodes > steps / 200
    assert play.events["lost: bomb"] > steps / 200

    play = compare("space_invaders", answers, hunt, steps=2 * steps, seed=2, watch=watch)
    print(play)
    assert play.reward > steps / 5
    assert play.ramps > steps / 500
    for event in ("full speed", "one alien left", "two shots"):
        assert play.events[event] > 100, (event, play)
    assert play.events["lost: alien"] > 0, play

    play = compare("space_invaders", answers, hunt, steps=steps, seed=3, sticky=0.1, watch=watch, ramping=False)
    print(play)
    assert play.ramps == 0
    assert play.reward > 24 * play.episodes  # more than one wave an episode

    play = compare("space_invaders", answers, undermine, steps=steps, seed=4, watch=watch)
    print(play)
    assert play.events["lost: invasion"] > 0
    assert play.events["aliens in the lowest row"] > 100


def test_every_step_is_the_originals() -> None:
    check(4_000)


@pytest.mark.long
def test_every_step_is_the_originals_for_long() -> None:
    check(100_000)


def as_state(game: Any) -> space_invaders.State:
    """The compiled game's state in the original's present situation."""
    state = space_invaders.State(
        x=game.pos,
        shots=game.f_bullet_map != 0,
        bombs=game.e_bullet_map != 0,
        aliens=game.alien_map != 0,
        rightward=game.alien_dir > 0,
        shot_timer=game.shot_timer,
        bomb_timer=game.alien_shot_timer,
        march_timer=game.alien_move_timer,
        march_interval=game.enemy_move_interval,
    )
    return jax.tree.map(jnp.asarray, state)


def step_both(game: Any, action: int) -> tuple[space_invaders.State, float, bool]:
    """The compiled game's state, reward and end, after asserting that they are the original's."""
    state, reward, terminated = STEP(as_state(game), action, DRAWS, game.ramping)
    their_reward, their_end = game.act(action)
    assert (float(reward), bool(terminated)) == (their_reward, their_end)
    np.testing.assert_array_equal(space_invaders.observe(state), game.state())
    jax.tree.map(np.testing.assert_array_equal, state, as_state(game))
    return state, float(reward), bool(terminated)


def with_aliens(*cells: tuple[int, int], **situation: Any) -> Any:
    """The original with aliens in these cells (row, column) only."""
    game = Env()
    game.alien_map[:] = 0
    for cell in cells:
        game.alien_map[cell] = 1
    for name, value in situation.items():
        setattr(game, name, value)
    return game


@pytest.mark.parametrize(
    ("aliens", "bomb"),
    [
        (((2, 3), (2, 7)), (2, 3)),  # as near on both sides: the left one
        (((2, 2), (2, 7)), (2, 7)),
        (((1, 4), (6, 4), (8, 3)), (6, 4)),  # the column counts, not the row
        (((0, 9),), (0, 9)),
    ],
)
def test_the_lowest_alien_of_the_nearest_column_drops_the_bomb(aliens: tuple, bomb: tuple) -> None:
    state, _, _ = step_both(with_aliens(*aliens, alien_shot_timer=0), NOOP)
    assert np.argwhere(np.asarray(state.bombs)).tolist() == [list(bomb)]


def test_the_last_alien_brings_a_faster_wave_down_to_an_interval_of_six() -> None:
    game = with_aliens((3, 5))
    for wave in range(8):
        game.alien_map[:] = 0
        game.alien_map[3, 5] = game.f_bullet_map[4, 5] = 1
        state, reward, _ = step_both(game, NOOP)
        assert reward == 1
        assert int(state.aliens.sum()) == 24
        assert int(state.march_interval) == max(6, 11 - wave)


def test_without_ramping_every_wave_is_as_slow_as_the_first() -> None:
    game = with_aliens((3, 5), ramping=False)
    game.f_bullet_map[4, 5] = 1
    state, _, _ = step_both(game, NOOP)
    assert int(state.march_interval) == 12


def test_turning_in_the_lowest_row_ends_the_game_and_shows_the_alien_at_the_top() -> None:
    state, _, lost = step_both(with_aliens((9, 0), (4, 0), alien_move_timer=0), NOOP)
    assert lost
    assert np.argwhere(np.asarray(state.aliens)).tolist() == [[0, 0], [5, 0]]


@pytest.mark.parametrize(("alien", "timer"), [((9, 4), 3), ((9, 5), 0)])
def test_an_alien_in_the_players_cell_ends_the_game_whoever_came(alien: tuple, timer: int) -> None:
    _, _, lost = step_both(with_aliens(alien, alien_move_timer=timer), LEFT if timer else NOOP)
    assert lost


@pytest.mark.parametrize("left", [1, 5, 12, 13])
def test_few_aliens_march_as_often_as_there_are_aliens(left: int) -> None:
    cells = [(row, column) for row in range(2) for column in range(1, 9)][:left]
    state, _, _ = step_both(with_aliens(*cells, alien_move_timer=0), NOOP)
    assert int(state.march_timer) == min(left, 12) - 1


def test_eight_streams_at_once_are_eight_alone() -> None:
    def play(key: Any) -> tuple[Any, Any]:
        def one(state: Any, action: Any) -> tuple[Any, Any]:
            state, reward, end = space_invaders.step(state, action, DRAWS, True)
            return state, (space_invaders.observe(state), reward, end)

        actions = jnp.asarray(space_invaders.ACTIONS)[jax.random.randint(key, (200,), 0, 4)]
        return jax.lax.scan(one, space_invaders.reset(space_invaders.draw(key)), actions)

    keys = jax.random.split(jax.random.key(7), 8)
    together = jax.jit(jax.vmap(play))(keys)
    alone = [jax.jit(play)(key) for key in keys]
    for stream, one in enumerate(alone):
        jax.tree.map(lambda a, b, i=stream: np.testing.assert_array_equal(a[i], b), together, one)
    assert float(together[1][1].sum()) > 20
