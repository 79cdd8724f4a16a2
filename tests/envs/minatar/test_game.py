from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.envs.base import TimeStep
from headrace.envs.minatar.game import GAMES, CompiledMinAtar, render_board


def same(mine: Any, theirs: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, mine, theirs)


def play(env: CompiledMinAtar, steps: int, key: Any) -> Any:
    """What each of `steps` random actions showed, from the start of a stream."""

    def one(state: Any, key: Any) -> tuple[Any, Any]:
        action_key, step_key = jax.random.split(key)
        return env.step(state, jax.random.randint(action_key, (), 0, env.spec.n_actions), step_key)

    first_key, steps_key = jax.random.split(key)
    state, _ = env.init(first_key)
    return jax.lax.scan(one, state, jax.random.split(steps_key, steps))[1]


@cache
def eight_streams(name: str) -> Any:
    keys = jax.random.split(jax.random.key(1), 8)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(partial(play, CompiledMinAtar(name), 2_600)))(keys))


@pytest.mark.parametrize("name", GAMES)
def test_eight_streams_at_once_are_eight_streams(name: str) -> None:
    seen = eight_streams(name)
    one_by_one = jax.jit(partial(play, CompiledMinAtar(name), 2_600))
    for i, key in enumerate(jax.random.split(jax.random.key(1), 8)[:3]):
        same(TimeStep(*(field[i] for field in seen)), one_by_one(key))


@pytest.mark.parametrize("name", GAMES)
def test_an_end_is_followed_by_a_fresh_episode(name: str) -> None:
    seen = eight_streams(name)
    assert seen.terminated.sum() >= 8
    same(seen.last, seen.terminated)
    assert not seen.truncated.any()
    same(seen.obs[~seen.last], seen.successor[~seen.last])
    assert (seen.obs[seen.last] != seen.successor[seen.last]).any(axis=(1, 2, 3)).all()
    if name != "freeway":  # whose cars have new speeds in each episode
        starts = np.asarray(jax.jit(jax.vmap(CompiledMinAtar(name).init))(jax.random.split(jax.random.key(0), 8))[1])
        assert (seen.obs[seen.last][:, None] == starts).all(axis=(2, 3, 4)).any(axis=1).all()


@pytest.mark.parametrize("name", GAMES)
def test_observations_and_rewards_are_float32_zeros_and_ones(name: str) -> None:
    env = CompiledMinAtar(name)
    state, obs = jax.eval_shape(env.init, jax.random.key(0))
    assert obs.shape == env.spec.observation_shape
    _, seen = jax.eval_shape(env.step, state, 0, jax.random.key(1))
    assert {obs.dtype, seen.obs.dtype, seen.successor.dtype, seen.reward.dtype} == {jnp.dtype("float32")}
    assert {seen.terminated.dtype, seen.truncated.dtype, seen.last.dtype} == {jnp.dtype("bool")}
    assert set(np.unique(jax.jit(env.init)(jax.random.key(0))[1])) == {0.0, 1.0}


def test_the_agents_actions_are_numbers_into_the_minimal_set() -> None:
    names = {name: CompiledMinAtar(name).spec.actions for name in GAMES}
    assert names == {
        "asterix": ("noop", "left", "up", "right", "down"),
        "breakout": ("noop", "left", "right"),
        "freeway": ("noop", "up", "down"),
        "seaquest": ("noop", "left", "up", "right", "down", "fire"),
        "space_invaders": ("noop", "left", "right", "fire"),
    }
    env = CompiledMinAtar("breakout", sticky=0.0)
    state, _ = env.init(jax.random.key(0))
    paddles = [int(env.step(state, action, jax.random.key(1))[0].game.paddle) for action in range(3)]
    assert paddles == [4, 3, 5]


def test_a_sticky_action_repeats_the_action_taken_also_across_episodes() -> None:
    env = CompiledMinAtar("breakout", sticky=1.0)
    state, _ = env.init(jax.random.key(0))
    state, _ = env.step(state, 2, jax.random.key(1))
    assert (int(state.game.paddle), int(state.last_action)) == (4, 0)

    lost = state.game._replace(ball=jnp.array([8, 8]), heading=jnp.array([1, 1]), paddle=jnp.int32(2))
    state, seen = env.step(state._replace(game=lost, last_action=jnp.int32(3)), 0, jax.random.key(2))
    assert bool(seen.terminated)
    assert (int(state.game.paddle), int(state.last_action)) == (4, 3)
    state, _ = env.step(state, 0, jax.random.key(3))
    assert int(state.game.paddle) == 5


def test_one_action_in_ten_is_repeated() -> None:
    draws = jax.jit(jax.vmap(CompiledMinAtar("breakout").draw))(jax.random.split(jax.random.key(0), 10_000))
    assert abs(float(draws.repeat.mean()) - 0.1) < 0.012  # four standard errors


def test_a_step_and_a_restart_draw_apart() -> None:
    draws = jax.jit(jax.vmap(CompiledMinAtar("freeway").draw))(jax.random.split(jax.random.key(0), 1_000))
    agree = (draws.game.pause == draws.restart.pause).mean()
    assert abs(float(agree) - 0.2) < 0.018  # four standard errors of 8,000 comparisons


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"'pong'.*asterix, breakout, freeway, seaquest, space_invaders"):
        CompiledMinAtar("pong")
    with pytest.raises(ValueError, match=r"\[0, 1\], got 1.5"):
        CompiledMinAtar("breakout", sticky=1.5)


def test_an_earlier_channel_is_painted_over_a_later_one() -> None:
    board = np.zeros((10, 10, 10), np.float32)
    ground = render_board(board)
    assert ground.shape == (160, 160, 3)
    assert ground.dtype == np.uint8
    assert (ground == ground[0, 0]).all()
    board[2, 7, 4] = 1
    alone = render_board(board)
    changed = (alone != ground).any(axis=-1)
    assert changed[32:48, 112:128].all()
    assert changed.sum() == 16 * 16
    board[2, 7, 8] = 1
    np.testing.assert_array_equal(render_board(board), alone)
    colours = {tuple(render_board(np.eye(10)[None, None, c])[0, 0]) for c in range(10)}
    assert len(colours) == 10


def test_a_states_picture_is_its_boards() -> None:
    env = CompiledMinAtar("asterix")
    state, obs = env.init(jax.random.key(0))
    np.testing.assert_array_equal(env.render(state), render_board(np.asarray(obs)))
