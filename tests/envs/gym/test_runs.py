"""Whole runs in environments of a user's own: they resume, they fail, and they say how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import BadSetting, EnvironmentFault
from headrace.progress import Silent
from headrace.store import RunFolder
from headrace.training import Trained, train
from tests.envs.gym import toys
from tests.small_runs import Command, StopAt

TOYS = "gym/tests.envs.gym.toys:headrace/"


def go(out: Path, name: str, progress: Any = None, steps: int = 400) -> Trained:
    return train("strq", f"{TOYS}{name}-v0", steps=steps, settings=["network=Mlp((8,), 8)"], out=out,
                 engine="reference", checkpoint_every=100, progress=progress)  # fmt: skip


class Heard(Silent):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


def test_one_that_cannot_be_saved_resumes_with_a_new_episode_and_says_so(programs: Path, tmp_path: Path) -> None:
    path = go(tmp_path, "Opaque", StopAt(200)).path
    assert "exact" not in RunFolder.read(path).manifest
    before = len(RunFolder.read(path).episodes()["step"])
    heard = Heard()
    assert go(tmp_path, "Opaque", heard).status == "finished"
    assert any("cannot be saved: a new episode is begun" in notice for notice in heard.notices)
    folder = RunFolder.read(path)
    assert folder.manifest["exact"] is False
    step = folder.manifest["resumed"][0]["step"]
    episodes = folder.episodes()
    first = int(np.searchsorted(episodes["step"], step, side="right"))
    assert first == before
    assert episodes["length"][first] == 60
    assert episodes["step"][first] == step + 60  # whole, and begun where the run was resumed


def test_one_that_can_be_saved_resumes_exactly(programs: Path, tmp_path: Path) -> None:
    whole = go(tmp_path / "whole", "Vector").path
    path = go(tmp_path / "parts", "Vector", StopAt(150)).path
    assert go(tmp_path / "parts", "Vector").status == "finished"
    one, other = RunFolder.read(whole).manifest, RunFolder.read(path).manifest
    assert len(other["resumed"]) == 1
    assert "exact" not in other
    assert one["digest"] == other["digest"]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            "raise",
            r"raised RuntimeError at step 220 \(.*toys.py, line \d+\): the robot fell over\. .* intact",
        ),
        ("shape", r"the observation that .*Vector-v0 gave at step 220 has shape \(5,\), not \(4,\)"),
    ],
)
def test_an_environment_that_fails_leaves_a_saved_run_and_its_cause(
    fault: str, says: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = go(tmp_path / "whole", "Vector")
    monkeypatch.setattr(toys.Vector, "fault", fault)
    monkeypatch.setattr(toys.Vector, "at", 40)
    monkeypatch.setattr(toys.Vector, "step", _only_in_the_fourth_episode(toys.Vector.step))
    with pytest.raises(EnvironmentFault, match=says):
        go(tmp_path / "faulty", "Vector")
    folder = RunFolder.read(tmp_path / "faulty" / wanted.path.name)
    assert folder.status == "failed"
    assert "EnvironmentFault" in folder.manifest["cause"]
    latest = folder.latest()
    assert latest is not None
    assert latest.step == 200
    monkeypatch.undo()
    assert go(tmp_path / "faulty", "Vector").status == "finished"
    assert RunFolder.read(folder.path).manifest["digest"] == RunFolder.read(wanted.path).manifest["digest"]


def test_one_that_cannot_be_reset_says_where(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"raised RuntimeError when it was reset \(.*toys.py, line .*stand up"):
        go(tmp_path, "Unresettable")


def _only_in_the_fourth_episode(step: Any) -> Any:
    taken = {"steps": 0}

    def wrapped(self: toys.Vector, action: int) -> Any:
        taken["steps"] += 1
        fault, type(self).fault = type(self).fault, type(self).fault if taken["steps"] > 180 else ""
        try:
            return step(self, action)
        finally:
            type(self).fault = fault

    return wrapped


def test_an_image_too_small_for_the_encoder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"an image of 20 x 20 is too small for Conv\(.*set network=Conv"):
        train("strq", f"{TOYS}Small-v0", steps=10, out=tmp_path, engine="reference")
    assert not list(tmp_path.iterdir())


def test_the_command_line_imports_and_shows_causes_without_a_traceback(command: Command, tmp_path: Path) -> None:
    words = ["train", "strq", "gym/headrace/Vector-v0", "--steps", "50", "--set", "network=Mlp((8,), 8)"]
    words += ["--engine", "reference", "--out", str(tmp_path), "--json"]
    unknown = command(*words)
    assert unknown.returncode == 1
    assert "unknown environment 'gym/headrace/Vector-v0'" in unknown.stderr
    assert "Traceback" not in unknown.stderr
    done = command(*words, "--import", "tests.envs.gym.toys")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "finished"
