from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from minatar.environment import Environment

from headrace.envs.minatar import GAMES, package
from headrace.envs.minatar.package import PackageMinAtar


@pytest.mark.parametrize("ramping", [True, False])
@pytest.mark.parametrize("name", GAMES)
def test_with_the_same_seed_it_is_the_originals_environment(name: str, ramping: bool) -> None:
    original = Environment(name, sticky_action_prob=0.3, difficulty_ramping=ramping)
    original.seed(7)
    original.reset()
    env = PackageMinAtar(name, sticky=0.3, ramping=ramping)
    np.testing.assert_array_equal(env.reset(seed=7), original.state())
    rng, ends = np.random.default_rng(0), 0
    for _ in range(3_000):
        action = int(rng.integers(env.spec.n_actions))
        seen = env.step(action)
        reward, terminated = original.act(original.minimal_action_set()[action])
        np.testing.assert_array_equal(seen.successor, original.state())
        if terminated:
            original.reset()
        np.testing.assert_array_equal(seen.obs, original.state())
        assert (seen.reward, seen.terminated, seen.last) == (reward, terminated, terminated)
        assert not seen.truncated
        ends += terminated
    assert ends >= 1


@pytest.mark.parametrize("name", GAMES)
def test_a_game_saved_in_the_middle_goes_on_the_same(name: str) -> None:
    env, rng = PackageMinAtar(name), np.random.default_rng(1)
    env.reset(seed=3)
    for _ in range(237):
        env.step(int(rng.integers(env.spec.n_actions)))
    restored = PackageMinAtar(name, sticky=0.9, seed=99)
    restored.restore(json.loads(json.dumps(env.save())))
    assert restored.save() == env.save()
    for _ in range(2_000):
        action = int(rng.integers(env.spec.n_actions))
        for mine, theirs in zip(env.step(action), restored.step(action), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert restored.save() == env.save()


@pytest.mark.parametrize("name", GAMES)
def test_every_attribute_comes_back_with_its_type(name: str) -> None:
    env, rng = PackageMinAtar(name), np.random.default_rng(1)
    for _ in range(150):
        env.step(int(rng.integers(env.spec.n_actions)))
    restored = PackageMinAtar(name)
    restored.restore(json.loads(json.dumps(env.save())))
    before, after = dict(vars(env.game)), dict(vars(restored.game))
    np.testing.assert_equal(after.pop("random").get_state(), before.pop("random").get_state())
    for attribute, value in before.items():
        assert repr(after[attribute]) == repr(value), attribute
        assert type(after[attribute]) is type(value), attribute


def test_what_was_saved_does_not_change_when_the_game_goes_on() -> None:
    env = PackageMinAtar("space_invaders")
    saved = env.save()
    before = json.dumps(saved)
    for _ in range(50):
        env.step(3)
    assert json.dumps(saved) == before


def test_neither_plotting_nor_jax_is_imported() -> None:
    code = (
        "import sys; from headrace.envs.minatar.package import PackageMinAtar; PackageMinAtar('breakout').step(0);"
        "print([m for m in ('matplotlib', 'seaborn', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'headrace\[minatar\]'"):
        PackageMinAtar("breakout")


def test_bad_input_is_named() -> None:
    env = PackageMinAtar("breakout")
    with pytest.raises(ValueError, match="unknown MinAtar game 'pong'"):
        PackageMinAtar("pong")
    with pytest.raises(ValueError, match=r"0\.\.2, got 3"):
        env.step(3)
    with pytest.raises(ValueError, match="saved state is of minatar/freeway"):
        env.restore(PackageMinAtar("freeway").save())


def test_the_picture_shows_the_board() -> None:
    picture = PackageMinAtar("breakout").render()
    assert picture.shape == (160, 160, 3)
    assert picture.dtype == np.uint8
