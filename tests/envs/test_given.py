"""Environments of a user's own: an object, a function, its import path; keywords and wrappers of Gymnasium's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Tuple

import headrace
from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.gym import GymRules
from headrace.envs.gym.env import GymEnv
from headrace.errors import BadSetting, EnvironmentFault, HeadraceError, UnknownName
from headrace.part import Keywords, differences, from_json, parse, to_json, tweak
from headrace.training.run import make_run
from headrace.training.single import Trained
from tests.small_runs import StopAt, assert_same_result

STEPS = 300

MINE = """
import gymnasium

def cart(**words):
    return gymnasium.make("CartPole-v1", **words)

class Louder(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 3 * reward

def same(env):
    return 7
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A user's module beside him."""
    (tmp_path / "mine_of_a_user.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    import mine_of_a_user

    yield mine_of_a_user
    del sys.modules["mine_of_a_user"]


def go(out: Path, env: Any, **more: Any) -> Trained:
    return headrace.train("strq", env, steps=STEPS, out=out, engine="learner", **more)


def episodes(done: Trained) -> list[Any]:
    return [column.tolist() for column in headrace.RunFolder.read(done.path).episodes().values()]


def test_an_object_a_function_and_its_path_train_as_the_name_does(mine: Any, tmp_path: Path) -> None:
    named = episodes(go(tmp_path, "gym/CartPole-v1"))
    for env in (gymnasium.make("CartPole-v1"), lambda: gymnasium.make("CartPole-v1"), mine.cart):
        assert episodes(go(tmp_path / "given", env)) == named
    assert len(list((tmp_path / "given").iterdir())) == 3
    by_path = go(tmp_path / "given", "own/mine_of_a_user.cart")
    assert by_path.did_nothing
    assert "own-mine_of_a_user.cart" in by_path.path.name


def test_a_given_environment_resumes_and_is_evaluated_when_it_is_given_again(tmp_path: Path) -> None:
    whole = go(tmp_path / "whole", gymnasium.make("CartPole-v1"), checkpoint_every=50)
    first = go(tmp_path / "parts", gymnasium.make("CartPole-v1"), checkpoint_every=50, progress=StopAt(100))
    assert first.status == "interrupted"
    done = go(tmp_path / "parts", gymnasium.make("CartPole-v1"), checkpoint_every=50)
    assert_same_result(done.path, whole.path)
    with pytest.raises(HeadraceError, match=r"own/CartPole-v1 was an object of .*evaluate\(..., env=env\)"):
        headrace.evaluate(done.path, episodes=1)
    played = headrace.evaluate(done.path, episodes=2, env=gymnasium.make("CartPole-v1"))
    assert len(played.episodes) == 2


class Walk:
    """The least that an environment has: three places in a row, and no way to save it."""

    spec = EnvSpec("walk", (3,), ("left", "right"))

    def reset(self, seed: int) -> np.ndarray:
        self.at = 1
        return np.eye(3, dtype=np.float32)[self.at]

    def step(self, action: int) -> TimeStep:
        self.at += 2 * action - 1
        successor, last = np.eye(3, dtype=np.float32)[self.at], self.at != 1
        reward, obs = float(self.at == 2), self.reset(0) if last else successor
        return TimeStep(obs, successor, reward, last, False, last)


def test_the_least_environment_trains_and_says_that_it_cannot_be_saved(tmp_path: Path) -> None:
    go(tmp_path, Walk(), checkpoint_every=50, progress=StopAt(100))
    heard = StopAt(10**9)
    assert go(tmp_path, Walk(), checkpoint_every=50, progress=heard).status == "finished"
    assert any("walk cannot be saved: a new episode is begun" in notice for notice in heard.notices)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (3, "an environment is a name, a Gymnasium environment, a function that makes one, or an object .* is 3"),
        (lambda: "walk", "own/.* is 'walk'"),
        (lambda place: place, r"cannot be made: .*missing 1 required positional argument: 'place'"),
    ],
)
def test_what_is_no_environment_is_refused(env: Any, message: str) -> None:
    with pytest.raises(HeadraceError, match=message):
        make_run("strq", env)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own/mine_of_a_user.card", "there is nothing at mine_of_a_user.card"),
        ("own/mine_of_yours.cart", "cannot import mine_of_yours"),
        ("own/mine_of_a_user.same", "cannot be made: same"),
    ],
)
def test_a_path_that_leads_to_no_environment_is_said(name: str, message: str) -> None:
    with pytest.raises(HeadraceError, match=message):
        make_run("strq", name).env.host()


def test_two_given_environments_of_one_label_but_other_shapes_are_two_runs() -> None:
    small, large = (make_run("strq", lambda n=n: Sized(n)) for n in (2, 5))
    assert small.env.label == large.env.label
    assert small.name != large.name


# Gymnasium's spaces, keywords and wrappers ----------------------------------------------------------------------------


class Sized(gymnasium.Env):
    """What it shows is sampled from a space; it never ends."""

    action_space = Discrete(2)

    def __init__(self, space: Any) -> None:
        self.observation_space = Box(0, 1, (space,)) if isinstance(space, int) else space
        self.wrong: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self._seen(), {}

    def step(self, action: int) -> Any:
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> Any:
        self.last = self.observation_space.sample()
        return self.last if self.wrong is None else self.wrong


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (Discrete(5, start=-1), 5),
        (MultiDiscrete([3, 4]), 7),
        (MultiBinary(6), 6),
        (Tuple((Discrete(2), Box(-1, 1, (3,)))), 5),
        (Dict({"seen": Box(0, 255, (2, 2), np.uint8), "held": Discrete(3)}), 7),
        (Box(-1, 1, ()), 1),
    ],
    ids=str,
)
def test_observations_of_other_spaces_become_one_vector(space: Any, size: int) -> None:
    inner = Sized(space)
    env = GymEnv("own/sized", env=inner)
    assert env.spec.observation_shape == (size,)
    first = env.reset(3)
    assert (first.shape, first.dtype) == ((size,), np.float32)
    np.testing.assert_array_equal(first, np.ravel(gymnasium.spaces.flatten(space, inner.last)))
    assert env.step(1).successor.shape == (size,)


def test_an_observation_outside_of_its_space_is_a_fault() -> None:
    inner = Sized(Dict({"a": Discrete(3)}))
    env = GymEnv("own/sized", env=inner)
    env.reset(0)
    inner.wrong = {"b": 1}
    with pytest.raises(EnvironmentFault, match=r"the observation \{'b': 1\} is not in its space Dict"):
        env.step(0)


def test_a_space_without_a_length_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"shows Sequence.*what can be learnt from is a vector"):
        GymEnv("own/sized", env=Sized(Sequence(Discrete(3))))


def test_settings_reach_gymnasium_make() -> None:
    run = make_run("strq", "gym/FrozenLake-v1", settings=["env.kwargs.map_name=8x8", "env.kwargs.is_slippery=False"])
    assert run.env.host().spec.observation_shape == (64,)
    assert run.env.label == "gym/FrozenLake-v1 kwargs.is_slippery=False kwargs.map_name='8x8'"
    assert make_run("strq", "gym/FrozenLake-v1").env.host().spec.observation_shape == (16,)
    slow = make_run("strq", "gym/FrozenLake-v1", settings=["env.kwargs.speed=3"])
    with pytest.raises(HeadraceError, match=r"gym/FrozenLake-v1 cannot be made: it raised TypeError .*speed"):
        slow.env.host()


@pytest.mark.usefixtures("mine")
def test_wrappers_are_put_around_by_their_import_paths() -> None:
    plain = GymEnv("gym/CartPole-v1", GymRules(kwargs=Keywords((("sutton_barto_reward", False),))))
    wrapped = make_run("strq", "gym/CartPole-v1", settings=["env.wrappers=mine_of_a_user.Louder"]).env.host()
    for env in (plain, wrapped):
        env.reset(0)
    assert wrapped.step(0).reward == 3 * plain.step(0).reward
    for words, message in (
        ("Louder", "env.wrappers takes import paths such as my_package.Wrapper, not 'Louder'"),
        ("mine_of_a_user.Lauder", "not 'mine_of_a_user.Lauder'"),
        ("mine_of_a_user.same", "must return a Gymnasium environment, it returned 7"),
        ("mine_of_a_user.MINE", "cannot import|not 'mine_of_a_user.MINE'"),
    ):
        with pytest.raises(HeadraceError, match=message):
            GymEnv("gym/CartPole-v1", GymRules(wrappers=words))


def test_keywords_print_compare_and_pass_through_json() -> None:
    rules = tweak(GymRules(), "kwargs.b=8x8", "kwargs.a=(1, 2.5)", "kwargs.c=True", "wrappers=x.Y,z.W", "frames=2")
    assert repr(rules) == "GymRules(frames=2, kwargs=Keywords(a=(1, 2.5), b='8x8', c=True), wrappers='x.Y,z.W')"
    assert (
        parse(repr(rules)) == rules == from_json(to_json(rules)) == tweak(GymRules(), *differences(rules, GymRules()))
    )
    assert hash(rules) == hash(parse(repr(rules)))
    assert repr(GymRules()) == "GymRules(frames=1)"
    assert tweak(rules, *differences(GymRules(), rules)) == GymRules()
    with pytest.raises(BadSetting, match="d=None is no keyword"):
        tweak(rules, "kwargs.d=None")
    with pytest.raises(UnknownName, match="unknown setting of GymRules"):
        tweak(rules, "kwarg.d=1")
