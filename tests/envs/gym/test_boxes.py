"""Boxes of actions: scaled, clipped, refused where they cannot be; runs in them resume to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, MultiDiscrete, Space

import headrace
from headrace.envs.gym import GymRules, Shown
from headrace.envs.gym.env import GymEnv, action_space
from headrace.errors import BadSetting
from headrace.runs.folder import RunFolder
from headrace.training.engine import Engine
from tests.small_runs import Command, StopAt

ROBOTS = ("Hopper", "HalfCheetah", "Walker2d", "Ant", "Humanoid")
SMALL = ["network=Mlp((8,), 8)", "aux.objective.horizon=2"]


def test_numbers_between_minus_one_and_one_are_scaled_to_the_bounds_and_others_clipped() -> None:
    take, names = action_space("x", Box(np.float32([-2, 0]), np.float32([2, 10])))
    assert names == ("0", "1")
    for given, wanted in (([0, 0], [0, 5]), ([-1, 1], [-2, 10]), ([9, -9], [2, 0]), ([0.5, -0.5], [1, 2.5])):
        taken = take(given)
        assert (taken.tolist(), taken.dtype) == (wanted, np.float32)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (Box(-np.inf, 1, (2,)), "has no bounds in some direction: actions are scaled to bounds. A wrapper "),
        (Box(-1, np.array([1, np.inf]), (2,)), "has no bounds in some direction"),
        (Box(-1, 1, (2, 2)), r"has the shape \(2, 2\): only a vector"),
        (Box(-1, 1, ()), r"has the shape \(\): only a vector"),
        (Box(0, 9, (2,), np.int64), "is of int64: only real numbers .* whole ones as a Discrete space"),
        (Box(0, np.array([0, 1]), (2,)), "has a direction without room"),
        (MultiDiscrete([2, 3]), r"x has the actions MultiDiscrete\(.*only a Discrete space or a Box"),
    ],
)
def test_a_box_that_cannot_be_scaled_to_is_refused(space: Space, says: str) -> None:
    with pytest.raises(BadSetting, match=says):
        action_space("x", space)


@pytest.mark.parametrize("action", [[np.nan], [np.inf], [0.0, 0.0], 0.5, ["east"]])
def test_only_finite_numbers_as_many_as_there_are_reach_an_environment(action: Any) -> None:
    env = GymEnv("gym/Pendulum-v1")
    env.reset(0)
    with pytest.raises(ValueError, match=r"1 finite numbers, got|could not convert"):
        env.step(action)


def test_the_clock_runs_from_minus_a_half_to_a_half_and_starts_anew() -> None:
    env = GymEnv("gym/Pendulum-v1", GymRules(clock=Shown()))
    assert env.spec.observation_shape == (4,)
    shown = [env.reset(0)[-1]]
    for _ in range(200):
        seen = env.step(np.zeros(1))
        shown.append(seen.successor[-1])
    np.testing.assert_allclose(shown, np.arange(201) / 200 - 0.5, atol=1e-6)
    assert (seen.truncated, seen.obs[-1]) == (True, -0.5)
    with pytest.raises(BadSetting, match=r"the clock .* is one more number of a vector"):
        GymEnv("gym/tests.envs.gym.toys:headrace/Image-v0", GymRules(clock=Shown()))


@pytest.mark.parametrize("robot", [ROBOTS[0], *(pytest.param(name, marks=pytest.mark.long) for name in ROBOTS[1:])])
def test_a_restored_simulation_goes_on_to_the_bit(robot: str) -> None:
    pytest.importorskip("mujoco", reason="the extra mujoco is not installed")
    here, there = (GymEnv(f"gym/{robot}-v5") for _ in range(2))
    random, count = np.random.default_rng(0), here.spec.n_actions
    for env, steps in ((here, 60), (there, 5)):
        env.reset(steps)
        for _ in range(steps):
            env.step(random.uniform(-1, 1, count))
    there.restore(json.loads(json.dumps(here.save())))
    for _ in range(100):
        action = random.uniform(-1, 1, count)
        one, other = here.step(action), there.step(action)
        np.testing.assert_array_equal(one.obs, other.obs)
        assert (one.reward, one.last) == (other.reward, other.last)


def test_a_simulation_is_not_restored_into_another_model() -> None:
    pytest.importorskip("mujoco", reason="the extra mujoco is not installed")
    here, there = (GymEnv("gym/Hopper-v5") for _ in range(2))
    for env in (here, there):
        env.reset(0)
    here._env.unwrapped.model.body_mass[1] *= 2  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="another model than the saved one"):
        there.restore(here.save() or {})


@pytest.mark.parametrize("engine", ["learner", pytest.param("reference", marks=pytest.mark.long)])
def test_a_run_in_a_box_resumes_to_the_bit_and_is_evaluated(engine: str, programs: Path, tmp_path: Path) -> None:
    def go(out: Path, **more: Any) -> Path:
        words = {"engine": engine, "steps": 400, "checkpoint_every": 100, "settings": SMALL, "out": out, **more}
        return headrace.train("ac+spr+orth2", "gym/Pendulum-v1", **words).path

    whole = go(tmp_path / "whole")
    path = go(tmp_path / "parts", progress=StopAt(150))
    assert RunFolder.read(path).status != "finished"
    go(tmp_path / "parts")
    one, other = RunFolder.read(whole), RunFolder.read(path)
    assert one.manifest["digest"] == other.manifest["digest"]
    assert "exact" not in other.manifest
    found = headrace.evaluate(whole, episodes=2, max_steps=30)
    assert np.isfinite(found.returns).all()
    action = headrace.load(whole)(np.zeros(3))
    assert (action.shape, action.dtype) == ((1,), np.float32)
    engine = headrace.load(whole, learning=True)
    assert isinstance(engine, Engine)
    assert engine.spec.box
    assert engine.action.shape == (1,)


def test_an_agent_without_a_policy_is_refused_in_a_line(command: Command, tmp_path: Path) -> None:
    for engine in ("auto", "reference"):
        done = command("train", "qrc", "gym/Pendulum-v1", "--engine", engine, "--out", str(tmp_path / engine))
        assert done.returncode != 0
        assert "Qrc compares a few actions by number" in done.stderr
        assert not (tmp_path / engine).exists()
