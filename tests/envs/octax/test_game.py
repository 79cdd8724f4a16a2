"""Octax games beside the package's own environment, and what is added to it: ends, restarts, saving."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import octax.environments
import pytest

from headrace.envs.hosted import Hosted
from headrace.envs.octax import GAMES, PAPER_GAMES, OctaxRules
from headrace.envs.octax.game import CompiledOctax

pytestmark = pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")


@cache
def game(name: str, max_steps: int = 4500) -> CompiledOctax:
    return CompiledOctax(name, OctaxRules(max_steps))


def test_the_games_are_those_of_the_package() -> None:
    """Every module that defines a game, with a level for each of its files where it has levels."""
    folder = Path(octax.environments.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    files = {path.stem for path in (folder.parents[1] / "roms").glob("*.ch8")}
    levels = {m: [f for f in files if re.fullmatch(rf"{m}\d\w*", f)] for m in modules}
    assert sorted(GAMES) == sorted(name for m in modules for name in (levels[m] or [m]))
    assert set(PAPER_GAMES) <= set(GAMES)
    assert len(PAPER_GAMES) == 8


def beside_the_package(name: str, steps: int) -> int:
    """Steps both with the same actions; how many episodes ended."""
    mine, (theirs, _) = game(name), octax.environments.create_environment(name)
    assert mine.spec.n_actions == theirs.num_actions
    assert theirs.max_num_steps_per_episodes == 4500
    step, key = jax.jit(mine.step), jax.random.key(3)
    state, obs = mine.init(key)
    their_state, their_obs, _ = theirs.reset(jax.random.key_data(key))
    np.testing.assert_array_equal(obs, their_obs.transpose(2, 1, 0))
    ends = 0
    for i, action in enumerate(np.random.default_rng(0).integers(mine.spec.n_actions, size=steps)):
        state, seen = step(state, jnp.int32(action), jax.random.fold_in(key, i))
        their_state, their_obs, reward, terminated, truncated, _ = theirs.step(their_state, jnp.int32(action))
        np.testing.assert_array_equal(seen.successor, their_obs.transpose(2, 1, 0))
        assert (float(seen.reward), bool(seen.terminated)) == (float(reward), bool(terminated))
        assert bool(seen.last) == bool(terminated) | bool(truncated)
        if seen.last:
            ends += 1
            their_state, their_obs, _ = theirs.reset(jax.random.key_data(jax.random.fold_in(key, i)))
        np.testing.assert_array_equal(seen.obs, their_obs.transpose(2, 1, 0))
    return ends


def test_it_plays_as_the_package_does_and_keeps_the_true_last_observation() -> None:
    assert beside_the_package("deep", 150) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in GAMES if not re.search(r"\d[ab]$", name)])
def test_every_game_plays_as_the_package_does(name: str) -> None:
    """But for two levels whose names the package itself cannot read."""
    beside_the_package(name, 600)


def test_the_limit_of_steps_truncates_and_does_not_terminate() -> None:
    env = game("deep", 5)
    state, _ = env.init(jax.random.key(0))
    step = jax.jit(env.step)
    flags = []
    for i in range(10):
        state, seen = step(state, jnp.int32(3), jax.random.key(i))
        flags.append((bool(seen.terminated), bool(seen.truncated), bool(seen.last)))
    assert flags == ([(False, False, False)] * 4 + [(False, True, True)]) * 2
    assert int(state.time) == 0


def test_many_at_once_are_each_alone() -> None:
    env, keys = game("deep"), jax.random.split(jax.random.key(1), 3)

    def play(key: Any) -> Any:
        def one(state: Any, i: Any) -> Any:
            action = jax.random.randint(jax.random.fold_in(key, i), (), 0, env.spec.n_actions)
            return env.step(state, action, jax.random.fold_in(key, 1000 + i))

        return jax.lax.scan(one, env.init(key)[0], jnp.arange(100))[1]

    together, alone = jax.jit(jax.vmap(play))(keys), jax.jit(play)
    assert together.last.any()
    for i, key in enumerate(keys):
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x, i=i: x[i], together), alone(key))


def test_a_game_saved_in_the_middle_goes_on_the_same() -> None:
    one, other = Hosted(game("deep")), Hosted(game("deep"))
    one.reset(4)
    other.reset(5)
    rng = np.random.default_rng(0)
    for _ in range(40):
        one.step(int(rng.integers(4)))
    other.restore(json.loads(json.dumps(one.save())))
    for _ in range(80):
        action = int(rng.integers(4))
        for mine, theirs in zip(one.step(action), other.step(action), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_picture_shows_the_display() -> None:
    hosted = Hosted(game("deep"))
    last_frame = hosted.reset(0)[..., -1]
    picture = hosted.render()
    assert picture.shape == (256, 512, 3)
    lit = (picture != picture.reshape(-1, 3).min(axis=0)).any(axis=-1)[::8, ::8]
    np.testing.assert_array_equal(lit, last_frame.astype(bool))


def test_levels_do_not_change_the_package() -> None:
    game("cavern1")
    assert not hasattr(octax.environments.cavern, "rom_file")


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="unknown Octax game 'breakout'"):
        CompiledOctax("breakout")
    hosted = Hosted(game("deep"))
    hosted.reset(0)
    with pytest.raises(ValueError, match=r"octax/deep has actions 0..3, got 4"):
        hosted.step(4)
