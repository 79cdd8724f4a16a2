from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minatar.environments.seaquest import Env

from headrace.envs.minatar import seaquest
from tests.envs.minatar.support import Answers, below, compare, wander

MOVES = {0: (0, 0), 1: (-1, 0), 2: (0, -1), 3: (1, 0), 4: (0, 1), 5: (0, 0)}  # column and row that each action adds
NOOP, FIRE = 0, 5
STEP = jax.jit(seaquest.step)


def answers(draws: Any, game: Any) -> Answers:
    enemy, diver = game.e_spawn_timer == 0, game.d_spawn_timer == 0
    rand = (below(draws.enemy_right), below(draws.enemy_is_sub)) * enemy + (below(draws.diver_right),) * diver
    return Answers(rand=rand, randint=(draws.enemy_row,) * enemy + (draws.diver_row,) * diver)


def rescue(crew_wanted: int) -> Callable[[Any, np.random.Generator], int]:
    """Gathers that many divers, brings them up, and shoots what is in front.

    A negative crew is an endless supply of air: it is used to bob up and down until all is at its fastest.
    """

    def policy(game: Any, rng: np.random.Generator) -> int:
        if rng.random() < 0.02:
            return wander(game, rng)
        deadly, risky = _danger(game)
        goal = _goal(game, crew_wanted)

        def cost(action: int) -> float:
            dx, dy = MOVES[action]
            x, y = min(9, max(0, game.sub_x + dx)), min(8, max(0, game.sub_y + dy))
            distance = abs(x - goal[0]) + abs(y - goal[1])
            drowns = y == 0 and not game.surface and game.diver_count == 0
            return 1000 * ((x, y) in deadly or drowns) + 50 * ((x, y) in risky) + distance + 0.5 * rng.random()

        costs = [cost(action) for action in MOVES]
        if _aims(game):
            costs[FIRE] -= 3
        return int(np.argmin(costs))

    return policy


def _goal(game: Any, crew_wanted: int) -> tuple[int, int]:
    crew = game.diver_count
    if crew < 0 and game.ramping and game.e_spawn_speed > 1:
        return game.sub_x, int(game.surface)
    if crew != 0 and (crew >= crew_wanted or (game.oxygen < 30 and crew < 6)):
        return game.sub_x, 0
    near = sorted((abs(x - game.sub_x) + abs(y - game.sub_y), x, y) for x, y, *_ in game.divers)
    return near[0][1:] if near else (5, 4)


def _danger(game: Any) -> tuple[set, set]:
    """The cells that kill in this step, and those that may in the next."""
    deadly, risky = set(), set()
    for x, y, right, timer, *gun in game.e_fish + game.e_subs:
        ahead = 1 if right else -1
        deadly |= {(x, y), (x + ahead * (timer == 0), y)}
        risky |= {(x + ahead * (timer <= 1), y)}
        risky |= {(x + ahead * k, y) for k in range(1, 4) if gun and gun[0] <= 1}
    for x, y, right in game.e_bullets:
        ahead = 1 if right else -1
        deadly |= {(x, y), (x + ahead, y)}
        risky |= {(x + 2 * ahead, y), (x + 3 * ahead, y)}
    return deadly, risky


def _aims(game: Any) -> bool:
    ahead = 1 if game.sub_or else -1
    return game.shot_timer == 0 and any(
        y == game.sub_y and (x - game.sub_x) * ahead > 0 for x, y, *_ in game.e_fish + game.e_subs
    )


class Watch:
    """Names what a step showed, and asserts what the compiled game's shapes rest on."""

    def __init__(self) -> None:
        self.surfaced = True

    def __call__(self, game: Any) -> Iterator[str]:
        assert_shapes_suffice(game)
        place, enemies = [game.sub_x, game.sub_y], [e[:2] for e in game.e_fish + game.e_subs]
        if game.surface and not self.surfaced:
            yield "surfaced: " + ("six" if game.diver_count == -1 else "fewer" if game.diver_count >= 0 else "negative")
        self.surfaced = game.surface or game.terminal
        seen = {
            "lost: no oxygen": game.terminal and game.oxygen < 0,
            "lost: nobody rescued": game.terminal and game.sub_y == 0,
            "lost: bullet": game.terminal and any(place in _path(*bullet) for bullet in game.e_bullets),
            "lost: fish": game.terminal and place in [f[:2] for f in game.e_fish],
            "lost: submarine": game.terminal and place in [s[:2] for s in game.e_subs],
            "two shots": len(game.f_bullets) == 2,
            "two divers": len(game.divers) == 2,
            "two divers in a cell": len(game.divers) == 2 and game.divers[0][:2] == game.divers[1][:2],
            "no room for a diver": game.diver_count == 6 and place in [d[:2] for d in game.divers],
            "moves at their fastest": game.move_speed == 2,
            "an enemy on every step": game.e_spawn_speed == 1,
            "enemies in one cell": len(enemies) > len({tuple(e) for e in enemies}),
            "ten enemies": len(enemies) >= 10,
        }
        yield from (name for name, is_so in seen.items() if is_so)


def _path(x: int, y: int, right: bool) -> list[list[int]]:
    """Where a bullet is and where it was before its last move."""
    return [[x, y], [x - 1 if right else x + 1, y]]


def assert_shapes_suffice(game: Any) -> None:
    enemies = game.e_fish + game.e_subs
    assert len({(x, y, timer) for x, y, _, timer, *_ in enemies}) == len(enemies)
    assert len({(y, right) for _, y, right, *_ in enemies}) == len({y for _, y, *_ in enemies})
    assert len(game.f_bullets) <= 2
    assert len({(x, y) for x, y, _ in game.f_bullets}) == len(game.f_bullets)
    assert [game.sub_x, game.sub_y] not in [b[:2] for b in game.f_bullets]
    assert len(game.divers) <= 2
    # The timer of every diver is that which the spawn timer implies.
    assert all(timer == (game.d_spawn_timer - 1) % 6 for *_, timer in game.divers), (game.d_spawn_timer, game.divers)
    assert all(0 <= timer <= 5 for _, _, _, timer, *_ in enemies)
    assert all(0 <= gun <= 10 for *_, gun in game.e_subs)


def check(steps: int) -> None:
    play = compare("seaquest", answers, wander, steps=steps, seed=1, sticky=0.1, watch=Watch())
    assert play.episodes > steps / 200
    assert play.events["lost: nobody rescued"] > steps / 1000
    print(play)

    play = compare("seaquest", answers, rescue(6), steps=2 * steps, seed=2, watch=Watch())
    print(play)
    for event in ("surfaced: six", "surfaced: negative", "moves at their fastest", "an enemy on every step"):
        assert play.events[event] > 0, (event, play)
    for event in ("lost: fish", "lost: submarine", "lost: bullet", "enemies in one cell", "ten enemies", "two shots"):
        assert play.events[event] > 0, (event, play)

    play = compare("seaquest", answers, rescue(2), steps=steps, seed=3, sticky=0.1, watch=Watch())
    print(play)
    assert play.events["surfaced: fewer"] > steps / 1000
    assert play.ramps > steps / 1000

    play = compare("seaquest", answers, rescue(7), steps=steps, seed=4, ramping=False, watch=Watch())
    print(play)
    assert play.ramps == 0
    assert play.events["lost: no oxygen"] > 0
    assert play.events["no room for a diver"] > 0
    assert play.events["two divers"] > 0


def test_every_step_is_the_originals() -> None:
    check(4_000)


@pytest.mark.long
def test_every_step_is_the_originals_for_long() -> None:
    check(100_000)


def as_state(game: Any) -> seaquest.State:
    """The compiled game's state in the original's present situation."""
    enemies, rightward = np.zeros((10, 10), np.int32), np.zeros(10, bool)
    for x, y, right, timer, *gun in game.e_fish + game.e_subs:
        enemies[y, x] |= (gun[0] + 1 if gun else seaquest.FISH) << 4 * timer
        rightward[y] = right
    divers = seaquest.Divers(np.zeros(2, bool), np.zeros(2, np.int32), np.zeros(2, np.int32), np.zeros(2, bool))
    for place, (x, y, right, _) in enumerate(reversed(game.divers)):
        divers.present[place], divers.x[place], divers.y[place], divers.right[place] = True, x, y, right
    state = seaquest.State(
        x=game.sub_x,
        y=game.sub_y,
        right=game.sub_or,
        enemies=enemies,
        rightward=rightward,
        shots=_flags(game.f_bullets),
        torpedoes=_flags(game.e_bullets),
        divers=divers,
        crew=game.diver_count,
        oxygen=game.oxygen,
        surfaced=game.surface,
        shot_timer=game.shot_timer,
        enemy_timer=game.e_spawn_timer,
        diver_timer=game.d_spawn_timer,
        spawn_interval=game.e_spawn_speed,
        move_interval=game.move_speed,
        ramp=game.ramp_index,
    )
    return jax.tree.map(jnp.asarray, state)


def _flags(bullets: list) -> np.ndarray:
    board = np.zeros((10, 10), np.int32)
    for x, y, right in bullets:
        board[y, x] |= seaquest.EASTBOUND if right else seaquest.WESTBOUND
    return board


DRAWS = seaquest.Draws(*map(jnp.asarray, (False, False, 3, False, 3)))


def step_both(game: Any, action: int, draws: seaquest.Draws = DRAWS) -> tuple[seaquest.State, float]:
    """The compiled game's state and reward, after asserting that they and the end are the original's."""
    state, reward, terminated = STEP(as_state(game), action, draws, game.ramping)
    game.random = answers(jax.tree.map(np.asarray, draws), game)
    their_reward, their_end = game.act(action)
    assert (float(reward), bool(terminated)) == (their_reward, their_end)
    np.testing.assert_array_equal(seaquest.observe(state), game.state())
    return state, float(reward)


def under_water(**situation: Any) -> Any:
    """The original, with the player under water at column 5, row 3, facing left."""
    game = Env()
    for name, value in {"sub_y": 3, "surface": False, **situation}.items():
        setattr(game, name, value)
    return game


def test_with_one_place_left_the_younger_of_two_divers_comes_on_board() -> None:
    divers = [[5, 3, True, 2], [5, 3, False, 2]]
    state, _ = step_both(under_water(diver_count=5, divers=divers, d_spawn_timer=15), NOOP)
    assert int(state.crew) == 6
    assert state.divers.present.tolist() == [False, True]
    assert bool(state.divers.right[1])


def test_of_a_fish_and_a_submarine_in_one_cell_the_fish_is_shot() -> None:
    game = under_water(e_fish=[[4, 3, True, 2]], e_subs=[[4, 3, True, 1, 5]], move_speed=2)
    _, reward = step_both(game, FIRE)
    assert reward == 1
    assert (game.e_fish, len(game.e_subs)) == ([], 1)


def test_of_two_fish_in_one_cell_the_older_is_shot() -> None:
    game = under_water(e_fish=[[4, 3, False, 0], [4, 3, False, 2]], move_speed=2)
    state, reward = step_both(game, FIRE)
    assert reward == 1
    assert int(state.enemies[3, 4]) == seaquest.FISH << 4 * 1


def test_a_submarine_that_swims_into_a_bullet_still_shoots() -> None:
    # The bullet flies from column 8 to 7, the submarine swims from 6 to 7 and fires; its bullet flies on to 8.
    game = under_water(sub_y=6, e_subs=[[6, 3, True, 0, 0]], f_bullets=[[8, 3, False]])
    state, reward = step_both(game, NOOP)
    assert reward == 1
    assert not state.enemies.any()
    assert int(state.torpedoes[3, 8]) == seaquest.EASTBOUND


def test_a_shot_and_the_one_before_it_may_meet_the_same_newcomer() -> None:
    # The older bullet is where the younger flies to, and there an enemy appears: one kill, one bullet over the edge.
    game = under_water(sub_x=1, f_bullets=[[0, 3, False]], e_spawn_timer=0)
    state, reward = step_both(game, FIRE, DRAWS._replace(enemy_right=jnp.bool_(True)))
    assert reward == 1
    assert not state.shots.any()
    assert not state.enemies.any()


@pytest.mark.parametrize(("crew", "left", "reward"), [(6, -1, 7.0), (5, 4, 0.0), (-1, -2, 0.0)])
def test_surfacing_costs_one_diver_or_with_six_all_and_one_more(crew: int, left: int, reward: float) -> None:
    game = under_water(sub_y=1, diver_count=crew, oxygen=159)
    state, gained = step_both(game, 2)
    assert (int(state.crew), int(state.oxygen), gained) == (left, 200, reward)


def test_air_that_runs_out_at_the_top_is_lost_although_it_is_refilled() -> None:
    state, _ = step_both(under_water(sub_y=1, diver_count=6, oxygen=0), 2)
    assert int(state.oxygen) == 200


def test_ramping_reaches_its_end_after_nineteen_surfacings() -> None:
    game = under_water(sub_y=0, diver_count=-1)
    for surfacing in range(25):
        state, _ = step_both(game, NOOP)
        assert int(state.spawn_interval) == max(1, 19 - surfacing)
        assert int(state.move_interval) == max(2, 5 - (surfacing + 1) // 2)
        assert int(state.ramp) == min(19, surfacing + 1)
        game.surface = False


def test_one_enemy_in_three_is_a_submarine_and_rows_and_sides_are_even() -> None:
    draws = jax.vmap(seaquest.draw)(jax.random.split(jax.random.key(0), 20_000))
    assert abs(float(draws.enemy_is_sub.mean()) - 1 / 3) < 0.0134  # four standard errors
    assert abs(float(draws.enemy_right.mean()) - 1 / 2) < 0.0142
    assert abs(float(draws.diver_right.mean()) - 1 / 2) < 0.0142
    assert abs(float((draws.enemy_right & draws.enemy_is_sub).mean()) - 1 / 6) < 0.0106
    pairs = np.zeros((10, 10))
    np.add.at(pairs, (np.asarray(draws.enemy_row), np.asarray(draws.diver_row)), 1)
    assert pairs[1:9, 1:9].sum() == 20_000
    assert np.abs(pairs[1:9, 1:9] - 312.5).max() < 5 * 312.5**0.5


def test_eight_streams_at_once_are_eight_alone() -> None:
    def play(key: Any, state: Any) -> tuple[Any, Any]:
        def one(state: Any, key: Any) -> tuple[Any, Any]:
            action_key, draw_key = jax.random.split(key)
            action = jax.random.randint(action_key, (), 0, 6)
            state, reward, end = seaquest.step(state, action, seaquest.draw(draw_key), True)
            return state, (seaquest.observe(state), reward, end)

        return jax.lax.scan(one, state, jax.random.split(key, 200))

    start = as_state(under_water(e_spawn_speed=1, e_spawn_timer=1, move_speed=2, ramp_index=19, diver_count=-1))
    keys = jax.random.split(jax.random.key(7), 8)
    together = jax.jit(jax.vmap(play, in_axes=(0, None)))(keys, start)
    alone = [jax.jit(play)(key, start) for key in keys]
    for stream, one in enumerate(alone):
        jax.tree.map(lambda a, b, i=stream: np.testing.assert_array_equal(a[i], b), together, one)
    assert float(together[1][1].sum()) > 20
