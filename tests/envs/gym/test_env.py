"""Gymnasium environments: as they are, saved where they can be, refused where they cannot be learnt from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from headrace.envs.base import TimeStep
from headrace.envs.gym import IMPORTS, GymRules
from headrace.envs.gym.env import GymEnv
from headrace.envs.gym.saving import CannotSave, save_layers
from headrace.errors import BadSetting, EnvironmentFault, HeadraceError
from tests.envs.gym import toys

TOYS = "tests.envs.gym.toys:headrace/"


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0"])
def test_it_is_gymnasiums_environment_and_keeps_the_true_last_observation(name: str) -> None:
    mine, theirs = GymEnv(f"gym/{name}"), gymnasium.make(name)
    np.testing.assert_array_equal(mine.reset(3), theirs.reset(seed=3)[0])
    ends = {"terminated": 0, "truncated": 0}
    for action in np.random.default_rng(0).integers(mine.spec.n_actions, size=450).tolist():
        seen = mine.step(action)
        successor, reward, terminated, truncated, _ = theirs.step(action)
        np.testing.assert_array_equal(seen.successor, successor)
        assert (seen.reward, seen.terminated, seen.truncated) == (reward, terminated, truncated)
        if seen.last:
            np.testing.assert_array_equal(seen.obs, theirs.reset()[0])
            ends["terminated"] += terminated
            ends["truncated"] += truncated
    assert ends["terminated" if name == "CartPole-v1" else "truncated"] >= 2


def test_images_get_a_channel_axis_and_actions_their_first_number() -> None:
    env = GymEnv(f"gym/{TOYS}Image-v0")
    assert (env.spec.observation_shape, env.spec.dtype, env.spec.low, env.spec.high) == ((12, 12, 1), "uint8", 0, 255)
    first = env.reset(0)
    row = int(first[:, 3, 0].argmax())
    assert [int(env.step(action).successor[:, 3, 0].argmax()) for action in (1, 2, 0)] == [row, row + 1, row]


def test_frames_can_be_stacked() -> None:
    env = GymEnv(f"gym/{TOYS}Image-v0", GymRules(frames=4))
    assert (env.spec.observation_shape, env.spec.frame_shape) == ((12, 12, 4), (12, 12, 1))
    assert env.reset(0).shape == (12, 12, 1)
    vector = GymEnv("gym/CartPole-v1", GymRules(frames=3))
    assert (vector.spec.observation_shape, vector.spec.frame_shape) == ((12,), (4,))


def went_on(name: str) -> list[tuple[TimeStep, TimeStep]]:
    one, other = GymEnv(f"gym/{name}"), GymEnv(f"gym/{name}")
    one.reset(1)
    other.reset(2)
    rng = np.random.default_rng(0)
    for _ in range(33):
        one.step(int(rng.integers(one.spec.n_actions)))
    saved = one.save()
    assert saved is not None
    other.restore(json.loads(json.dumps(saved)))
    chosen = rng.integers(one.spec.n_actions, size=300).tolist()
    return [(one.step(action), other.step(action)) for action in chosen]


@pytest.mark.parametrize(
    "name",
    [
        "CartPole-v1",
        "Acrobot-v1",
        "MountainCar-v0",
        *(f"{TOYS}{name}-v0" for name in ("Image", "SavesItself", "Samples")),
    ],
)
def test_an_environment_of_plain_values_is_saved_exactly(name: str) -> None:
    for mine, theirs in went_on(name):
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["Opaque", "Shared"])
def test_one_that_is_more_than_plain_values_says_that_it_cannot_be_saved(kind: str) -> None:
    env = GymEnv(f"gym/{TOYS}{kind}-v0")
    env.reset(0)
    assert env.save() is None


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("CartPol-v1", HeadraceError, "did you mean 'gym/CartPole-v1'.*--import my_package"),
        ("CartPole", HeadraceError, "unknown environment 'gym/CartPole'; did you mean 'gym/CartPole-v[01]'"),
        (
            f"{TOYS}Unmakable-v0",
            HeadraceError,
            r"cannot be made: it raised RuntimeError \(.*toys.py, line .*such robot",
        ),
        (
            f"{TOYS}Deep-v0",
            BadSetting,
            r"shows Box\(.*\(4, 4, 4, 4\).*learnt from is a vector .* --set env.wrappers=",
        ),
        (f"{TOYS}ChannelsFirst-v0", BadSetting, r"\(3, 84, 84\), which look like \(channels, .*last, \(84, 84, 3\)"),
        ("no_such_module:X-v0", HeadraceError, "cannot import no_such_module: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        GymEnv(f"gym/{name}")


def test_a_wide_image_of_many_channels_is_taken_as_it_is() -> None:
    assert GymEnv(f"gym/{TOYS}FewerChannelsThanRows-v0").spec.observation_shape == (9, 20, 20)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("OldReset", r"its reset\(\) must return \(observation, info\), as .*, not one ndarray"),
        ("OldStep", r"its step\(\) must return \(observation, reward, terminated, truncated, info\), .* not 4 values"),
        ("Unpaid", "the reward None is no number"),
        ("Ragged", r"the observation \[1.0, \[2.0, 3.0\]\] is no array of numbers"),
        ("Bright", "the observation has 300.0 in it, but its space is of uint8"),
        ("Dim", "the observation has 0.25 in it, but its space is of uint8"),
        ("Hollow", "the observation has nan in it, but its space is of uint8"),
        ("Listed", "the observation has -1 in it, but its space is of uint8"),
    ],
)
def test_what_is_not_gymnasiums_interface_is_told_as_such(kind: str, says: str) -> None:
    def begin(env: GymEnv) -> TimeStep:
        env.reset(0)
        return env.step(0)

    with pytest.raises(EnvironmentFault, match=rf"^gym/{TOYS}{kind}-v0: {says}$"):
        begin(GymEnv(f"gym/{TOYS}{kind}-v0"))


def test_an_image_of_another_type_is_taken_where_nothing_is_lost() -> None:
    env = GymEnv(f"gym/{TOYS}Whole-v0")
    env.reset(0)
    seen = env.step(0).successor
    assert seen.dtype == np.uint8
    assert np.array_equal(seen, np.full((12, 12, 1), 255))


def test_modules_named_for_the_process_are_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_envs.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('MyOwnCart-v7', CartPoleEnv, max_episode_steps=3)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(HeadraceError, match="unknown environment 'gym/MyOwnCart-v7'"):
        GymEnv("gym/MyOwnCart-v7")
    monkeypatch.setenv(IMPORTS, "my_own_envs")
    env = GymEnv("gym/MyOwnCart-v7")
    env.reset(0)
    assert [env.step(0).truncated for _ in range(3)] == [False, False, True]


def test_an_environment_without_pictures_says_so() -> None:
    env = GymEnv(f"gym/{TOYS}Vector-v0")
    env.reset(0)
    with pytest.raises(HeadraceError, match=r"Vector-v0 cannot be drawn: it has no render mode rgb_array"):
        env.render()


def test_saving_takes_time_in_proportion_to_the_arrays_that_are_held():
    assert _calls_to_save(400) < 2.5 * _calls_to_save(200)


def _calls_to_save(arrays: int) -> int:
    env: Any = toys.Vector()
    env.boards = [np.zeros(2) for _ in range(arrays)]
    calls = 0

    def called(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        save_layers(env)
    finally:
        sys.setprofile(None)
    return calls


def test_arrays_of_one_memory_are_found_wherever_they_are_held():
    whole = np.zeros((4, 6))
    for one, other in ((whole, whole[3]), (whole[1:3], whole[:, 2]), (whole[:, 5], whole[3, 4:])):
        env: Any = toys.Vector()
        env.boards = [np.zeros(3), one, np.zeros(0), other, np.zeros(3)]
        with pytest.raises(CannotSave):
            save_layers(env)
    env = toys.Vector()
    env.boards = [whole[0], whole[1], whole[:0], np.zeros(0)]
    save_layers(env)
