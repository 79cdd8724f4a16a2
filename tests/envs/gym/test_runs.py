"""Whole runs in environments of a user's own: they resume, they fail, and they say how."""

from __future__ import annotations

import json
import os
import re
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import BadSetting, EnvironmentFault, StorageFull
from headrace.runs.folder import RunFolder, RunWriter
from headrace.training.evaluation import evaluate
from headrace.training.progress import Progress
from headrace.training.run import run_of
from headrace.training.single import Trained, train
from tests.envs.gym import toys
from tests.small_runs import Command, StopAt, assert_same_arrays, assert_same_result, checkpoint_steps, only_run

TOYS = "gym/tests.envs.gym.toys:headrace/"


def go(out: Path, name: str, progress: Any = None, **changes: Any) -> Trained:
    wanted = {"steps": 400, "engine": "reference", "checkpoint_every": 100, "progress": progress, **changes}
    return train("strq", f"{TOYS}{name}-v0", settings=["network=Mlp((8,), 8)"], out=out, **wanted)


class Heard(Progress):
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


FAULTS = {
    "raises": r"gym/.*Vector-v0 raised RuntimeError at step 220 \(.*test_runs.py, line \d+\): the robot fell over",
    "exits": r"gym/.*Vector-v0 raised SystemExit at step 220 \(.*test_runs.py, line \d+\): the robot left",
    "grows": r"the (observation|successor) that .*Vector-v0 gave at step 220 has shape \(5,\), not \(4,\): nothing .*",
}


@pytest.mark.parametrize("engine", ["reference", "learner"])
@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_fails_leaves_all_that_was_learnt_and_the_cause(
    fault: str, engine: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"engine": engine, "checkpoint_every": None}
    with monkeypatch.context() as patch:
        patch.setattr(toys.Vector, "step", _failing(toys.Vector.step, fault, at=220))
        with pytest.raises(EnvironmentFault, match=rf"^{FAULTS[fault]}\. The run is saved as of step 219: fix "):
            go(tmp_path, "Vector", **usual)
    folder = RunFolder.read(only_run(tmp_path))
    assert folder.status == "failed"
    assert re.match(f"EnvironmentFault: {FAULTS[fault]}", folder.manifest["cause"])
    assert "exact" not in folder.manifest  # up to here it is
    assert folder.episodes()["step"].tolist() == [60, 120, 180]
    saved = folder.latest()
    assert saved is not None
    assert saved.step == 219
    assert_same_arrays(saved.arrays, _learnt_in(folder, 219))

    heard = Heard()
    assert go(tmp_path, "Vector", heard, **usual).status == "finished"
    assert [n for n in heard.notices if "failed: a new episode is begun, and the run is no longer exact" in n]
    folder = RunFolder.read(folder.path)
    assert folder.manifest["exact"] is False
    assert folder.manifest["breaks"] == [{"step": 219, "why": f"{TOYS}Vector-v0 failed"}]
    assert folder.episodes()["step"].tolist() == [60, 120, 180, 279, 339, 399]
    assert folder.episodes()["length"].tolist() == [60] * 6


@pytest.mark.parametrize(
    ("at", "kept"), [(1, "Nothing is saved yet"), (201, "The run is saved as of step 200")], ids=["first", "after"]
)
def test_one_that_fails_where_nothing_is_to_be_saved_goes_on_exactly(
    at: int, kept: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = go(tmp_path / "whole", "Vector")
    with monkeypatch.context() as patch:
        patch.setattr(toys.Vector, "step", _failing(toys.Vector.step, "raises", at))
        with pytest.raises(EnvironmentFault, match=rf"at step {at} .*: the robot fell over\. {kept}: fix"):
            go(tmp_path / "faulty", "Vector")
    path = only_run(tmp_path / "faulty")
    assert max(checkpoint_steps(path), default=0) == at - 1
    assert go(tmp_path / "faulty", "Vector").status == "finished"
    assert "exact" not in RunFolder.read(path).manifest
    assert_same_result(path, wanted.path)


def test_one_that_fails_on_a_full_disk_says_both(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(folder: RunWriter, *_: Any) -> None:
        raise StorageFull(folder.path, 1, "the disk is full")

    monkeypatch.setattr(toys.Vector, "step", _failing(toys.Vector.step, "raises", 50))
    monkeypatch.setattr(RunWriter, "save_checkpoint", no_room)
    heard = Heard()
    with pytest.raises(EnvironmentFault, match=r"the robot fell over\. Nothing is saved yet: fix"):
        go(tmp_path, "Vector", heard)
    assert any("the disk is full" in notice for notice in heard.notices)
    assert RunFolder.read(only_run(tmp_path)).status == "failed"


def test_one_that_fails_while_it_is_evaluated_says_so(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = go(tmp_path, "Vector").path
    monkeypatch.setattr(toys.Vector, "step", _failing(toys.Vector.step, "raises", 7))
    with pytest.raises(EnvironmentFault, match=r"Vector-v0 raised RuntimeError at step 7 .*: the robot fell over$"):
        evaluate(path, episodes=2)


def _failing(step: Any, fault: str, at: int) -> Any:
    """The step of an environment, but for one that goes wrong."""
    taken = count(1)

    def wrapped(self: toys.Vector, action: int) -> Any:
        if next(taken) != at:
            return step(self, action)
        if fault == "raises":
            raise RuntimeError("the robot fell over")
        if fault == "exits":
            raise SystemExit("the robot left")
        return np.zeros(5), 0.0, False, False, {}

    return wrapped


def _learnt_in(folder: RunFolder, steps: int) -> dict[str, np.ndarray]:
    stream = run_of(folder.identity).stream()
    stream.begin()
    stream.run(steps)
    return stream.save()[0]


def test_one_that_cannot_be_reset_says_where(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentFault, match=r"raised RuntimeError when it was reset \(.*toys.py, line .*stand up\. Nothing "
    ):
        go(tmp_path, "Unresettable")


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


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raise() -> Any:
    raise Unprintable


@pytest.mark.parametrize("engine", ["reference", "learner"])
@pytest.mark.parametrize(
    ("answer", "said"),
    [(_raise, r"raised Unprintable when it was saved \(.*\), which cannot be put into words"),
     (lambda: {"arm": object()}, r"returned when it was saved is not JSON: Object of type object is not JSON")],
    ids=["raises", "not JSON"],
)  # fmt: skip
def test_one_that_saves_itself_wrongly_leaves_all_that_was_learnt(
    answer: Any, said: str, engine: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = toys.SavesItself.save, count()
    with monkeypatch.context() as patch:
        patch.setattr(toys.SavesItself, "save", lambda self: real(self) if next(asked) == 0 else answer())
        with pytest.raises(EnvironmentFault, match=said + r".*\. The run is saved as of step 100: fix"):
            go(tmp_path, "SavesItself", engine=engine)
    folder = RunFolder.read(only_run(tmp_path))
    saved = folder.latest()
    assert saved is not None
    assert_same_arrays(saved.arrays, _learnt_in(folder, 100))
    assert go(tmp_path, "SavesItself", engine=engine).status == "finished"
    assert RunFolder.read(folder.path).manifest["breaks"] == [{"step": 100, "why": f"{TOYS}SavesItself-v0 failed"}]


def test_one_that_never_saves_is_told_before_anything_is_learnt(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toys.SavesItself, "save", lambda self: _raise())
    with pytest.raises(EnvironmentFault, match=r"when it was saved .* Nothing is saved yet: fix the environment"):
        go(tmp_path, "SavesItself", engine="learner")
    assert RunFolder.read(only_run(tmp_path)).episodes()["step"].tolist() == []


def test_one_that_cannot_be_restored_loses_nothing(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = go(tmp_path / "whole", "SavesItself", engine="learner").path
    path = go(tmp_path / "parts", "SavesItself", StopAt(200), engine="learner").path
    with monkeypatch.context() as patch:
        patch.setattr(toys.SavesItself, "restore", lambda self, saved: _raise())
        with pytest.raises(EnvironmentFault, match=r"raised Unprintable when it was restored .* saved as of step [23]"):
            go(tmp_path / "parts", "SavesItself", engine="learner")
    assert go(tmp_path / "parts", "SavesItself", engine="learner").status == "finished"
    assert_same_result(path, wanted)


def test_one_that_changes_the_folder_leaves_its_run_where_it_was_to_be(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reset = toys.Vector.reset
    monkeypatch.setattr(toys.Vector, "reset", lambda self, **words: (os.chdir("/"), reset(self, **words))[1])
    done = go(Path("runs"), "Vector", engine="learner")
    assert os.getcwd() == "/"
    assert done.path == Path("runs") / only_run(tmp_path / "runs").name
    assert RunFolder.read(tmp_path / done.path).status == "finished"


@pytest.mark.parametrize("engine", ["reference", "learner"])
def test_a_reward_that_cannot_be_scaled_is_the_environments_fault(
    engine: str, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = toys.Vector.step
    monkeypatch.setattr(toys.Vector, "step", lambda self, action: (step(self, action)[0], 3e38, False, False, {}))
    said = r"the reward that .*Vector-v0 gave at step 1 has 3e\+38 in it \(no number may be beyond 1e\+12\): nothing"
    with pytest.raises(EnvironmentFault, match=said):
        go(tmp_path, "Vector", engine=engine)


def test_the_largest_reward_makes_nothing_infinite(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = toys.Vector.step
    monkeypatch.setattr(toys.Vector, "step", lambda self, action: (step(self, action)[0], 1e12, False, False, {}))
    assert go(tmp_path, "Vector", engine="learner", steps=3000).status == "finished"
