"""What every environment promises, whichever it is. A new one joins by having a name.

The usual run takes few steps of the paper's games, MinAtar, the probes and some of Gymnasium's; `-m long` takes many
steps of every environment that has a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.hosted import Hosted
from headrace.envs.registry import SETS, environment, matching, names

GYM = ["gym/CartPole-v1", "gym/Acrobot-v1", "gym/MountainCar-v0", "gym/tests.envs.gym.toys:headrace/Image-v0"]
FEW = {"atari": 40, "octax": 40, "minatar": 300, "probe": 60, "gym": 260}
MANY = {"atari": 500, "octax": 500, "minatar": 3000, "probe": 300, "gym": 3000}
SAVED_AFTER = 30
COMPILED = "compiled"

pytestmark = pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")


class Subject:
    """An environment in one of its forms: two copies of it, and what each showed for one seed and the same actions."""

    def __init__(self, name: str, form: str, steps: int) -> None:
        self.name, self.form, self.steps, self.family = name, form, steps, name.partition("/")[0]

    @cached_property
    def copies(self) -> tuple[Any, Any]:
        return self._made(), self._made()

    @cached_property
    def played(self) -> tuple[list[TimeStep], list[TimeStep]]:
        """The first observation of each stands as a step that led to it."""
        return self._play(self.copies[0]), self._play(self.copies[1])

    @property
    def spec(self) -> EnvSpec:
        return self.copies[0].spec

    def actions(self, steps: int, seed: int) -> list[int]:
        return np.random.default_rng(seed).integers(self.spec.n_actions, size=steps).tolist()

    def _made(self) -> Any:
        found = environment(self.name)
        return Hosted(found.compiled()) if self.form == COMPILED else found.host()

    def _play(self, env: Any) -> list[TimeStep]:
        first = env.reset(5)
        begun = TimeStep(first, first, 0.0, terminated=False, truncated=False, last=False)
        return [begun, *(env.step(action) for action in self.actions(self.steps, 0))]


def cases(wanted: list[str], steps: dict[str, int], suffix: str = "", **marks: Any) -> Iterator[Any]:
    """Octax's host form is its compiled one stepped from Python, so that one of the two stands for both."""
    for name in wanted:
        forms = environment(name).forms
        for form in forms[:1] if name.startswith("octax") else forms:
            case = (name, form, steps[name.partition("/")[0]])
            yield pytest.param(case, id=f"{name}-{form}{suffix}", **marks)


OCTAX = ["octax/pong", "octax/spacejam", "octax/worm"]  # a program for each; the long run has all
USUAL = [*SETS["atari26"], *OCTAX, *matching("minatar/*"), *matching("probe/*"), *GYM]
EVERY = [*names(), *GYM]


@pytest.fixture(
    scope="module", params=[*cases(USUAL, FEW), *cases(EVERY, MANY, "-many", marks=pytest.mark.long)]
)  # fmt: skip
def subject(request: pytest.FixtureRequest) -> Subject:
    """All laws are tried on one environment before the next: what it showed need not be kept longer."""
    return Subject(*request.param)


def same(mine: TimeStep, theirs: TimeStep) -> None:
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_seed_gives_the_same_stream(subject: Subject) -> None:
    for mine, theirs in zip(*subject.played, strict=True):
        same(mine, theirs)


def test_what_is_seen_has_the_declared_shape_type_and_range(subject: Subject) -> None:
    spec = subject.spec
    assert spec.name == subject.name
    assert spec.n_actions == len(set(spec.actions)) >= 1
    for step in subject.played[0]:
        for frame in (step.obs, step.successor):
            assert frame.shape == spec.frame_shape
            assert frame.dtype == np.dtype(spec.dtype)
            assert spec.low <= frame.min()
            assert frame.max() <= spec.high
        assert np.isfinite(step.reward)
        assert isinstance(step.reward, float)


def test_ends_are_said_truly(subject: Subject) -> None:
    """Only the last step has another observation to act on than the one the action led to."""
    for step in subject.played[0]:
        assert all(isinstance(flag, bool) for flag in (step.terminated, step.truncated, step.last))
        assert step.last or not step.truncated
        assert not step.last or step.terminated or step.truncated
        assert subject.family == "atari" or step.last == (step.terminated or step.truncated)
        if not step.last:
            np.testing.assert_array_equal(step.obs, step.successor)


def test_an_action_that_is_none_is_refused_with_the_numbers(subject: Subject) -> None:
    assert subject.played
    has = rf"{re.escape(subject.name)} has actions 0\.\.{subject.spec.n_actions - 1}"
    for action in (-1, subject.spec.n_actions):
        with pytest.raises(ValueError, match=f"{has}, got {action}"):
            subject.copies[0].step(action)


def test_there_is_a_picture(subject: Subject) -> None:
    assert subject.played
    if subject.family != "gym":  # where drawing may need more packages, or may not be there at all
        picture = subject.copies[0].render()
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert picture.shape[2] == 3


def test_saved_in_the_middle_it_goes_on_the_same(subject: Subject) -> None:
    one, other = subject.copies
    one.reset(7)
    for action in subject.actions(SAVED_AFTER, 1):
        one.step(action)
    other.reset(8)
    for action in subject.actions(3, 2):
        other.step(action)
    saved = one.save()
    assert saved is not None
    other.restore(json.loads(json.dumps(saved)))
    assert json.dumps(one.save()) == json.dumps(saved)  # saving changes nothing
    for action in subject.actions(subject.steps // 2, 3):
        same(one.step(action), other.step(action))
    assert one.save() == other.save()


@pytest.mark.long
def test_a_new_episode_begins_where_one_ends(subject: Subject) -> None:
    """Steps at random until an episode ends; none of MinAtar's, the probes' or Gymnasium's outlasts three thousand."""
    env = subject.copies[0]
    env.reset(11)
    for action in subject.actions(3000, 4):
        seen = env.step(action)
        if seen.last:
            assert env.step(0).obs.shape == env.spec.frame_shape
            return
    assert subject.family not in ("minatar", "probe", "gym")
