"""What a sweep does about its runs, wherever they are trained: what is missing, and twice again what failed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadSetting, HeadraceError, RunConflict, UnknownName
from headrace.runs.folder import RunFolder
from headrace.runs.lock import claim
from headrace.sweep import driver
from headrace.sweep.display import Display
from headrace.sweep.driver import Swept, sweep
from headrace.sweep.executor import EXECUTORS, LOCK
from headrace.sweep.plan import grid
from headrace.sweep.status import Standing
from headrace.training.run import Run
from tests.sweep.scripted import Scripted

PLAN = grid("qrc", "minatar/breakout", seeds="0:4", steps=100)


class Heard(Display):
    """Remembers what was shown."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.shown: list[list[str]] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def show(self, found: Sequence[Standing]) -> None:
        self.shown.append([s.state for s in found])


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXECUTORS, "scripted", "tests.sweep.scripted:Scripted")
    monkeypatch.setattr(Scripted, "script", {})
    monkeypatch.setattr(Scripted, "tried", [])
    monkeypatch.setattr(driver, "HELD_SECONDS", 0.0)


def swept(out: Path, script: dict[int, list[str]] | None = None, runs: list[Run] = PLAN, **more: Any) -> Swept:
    Scripted.script.clear()
    Scripted.script.update(script or {})
    return sweep(runs, out, on="scripted", **{"display": Heard(), **more})


def states(found: Swept) -> list[str]:
    return [s.state for s in found.standings]


def test_a_plan_is_done_once_and_a_second_sweep_does_nothing(tmp_path: Path) -> None:
    assert states(swept(tmp_path)) == ["done"] * 4
    assert Scripted.tried == [0, 1, 2, 3]
    again = swept(tmp_path)
    assert (states(again), again.interrupted) == (["done"] * 4, False)
    assert Scripted.tried == [0, 1, 2, 3]


def test_a_longer_plan_does_only_what_is_missing(tmp_path: Path) -> None:
    swept(tmp_path, runs=PLAN[1:3])
    Scripted.tried.clear()
    assert states(swept(tmp_path)) == ["done"] * 4
    assert Scripted.tried == [0, 3]


@pytest.mark.parametrize(("word", "cause"), [("raise", "ValueError: raised"), ("die", "its process was killed")])
def test_a_failing_run_is_tried_three_times_and_stops_no_other(tmp_path: Path, word: str, cause: str) -> None:
    heard = Heard()
    found = swept(tmp_path, {1: [word] * 9}, display=heard)
    assert states(found) == ["done", "failed", "done", "done"]
    assert Counter(Scripted.tried) == {0: 1, 1: 3, 2: 1, 3: 1}
    assert found.standings[1].cause.startswith(cause)
    assert [n.partition(" failed")[2].partition(":")[0] for n in heard.notices if "failed" in n] == [
        ", it is tried again", ", it is tried again", " for good",
    ]  # fmt: skip
    folder = RunFolder.read(tmp_path / PLAN[1].name)
    assert (folder.status, folder.manifest["cause"][:10]) == ("failed", cause[:10])


@pytest.mark.parametrize("script", [["raise"], ["die", "raise"], ["stop"]])
def test_a_run_that_succeeds_at_last_is_done(tmp_path: Path, script: list[str]) -> None:
    tries = len(script) + 1
    assert states(swept(tmp_path, {2: script})) == ["done"] * 4
    assert Scripted.tried.count(2) == tries


def test_a_new_sweep_tries_again_what_failed_for_good(tmp_path: Path) -> None:
    swept(tmp_path, {1: ["raise"] * 3})
    assert states(swept(tmp_path)) == ["done"] * 4


def test_a_diverged_run_is_reported_and_never_tried_again(tmp_path: Path) -> None:
    found = swept(tmp_path, {1: ["diverge"]})
    assert states(found) == ["done", "diverged", "done", "done"]
    assert found.standings[1].cause == "q was no longer finite at step 3"
    swept(tmp_path)
    assert Scripted.tried.count(1) == 1


def test_a_diverged_run_keeps_its_place_beside_others_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "together", 4)
    found = swept(tmp_path, {1: ["diverge"], 2: ["die"]})
    assert states(found) == ["done", "diverged", "done", "done"]
    assert Scripted.tried == [0, 1, 2, 3, 1, 2]


def test_a_run_that_another_process_trains_is_waited_for(tmp_path: Path) -> None:
    class Impatient(Heard):
        def show(self, found: Sequence[Standing]) -> None:
            super().show(found)
            if self.shown.count(["running", "done", "done", "done"]) == 3:
                os.kill(os.getpid(), signal.SIGINT)

    with RunFolder.open(tmp_path / PLAN[0].name, PLAN[0].identity(), {}):
        found = swept(tmp_path, display=Impatient())
        assert (states(found), found.interrupted) == (["running", "done", "done", "done"], True)
    assert Scripted.tried == [1, 2, 3]
    assert states(swept(tmp_path)) == ["done"] * 4


def test_a_run_that_is_lost_but_gets_further_is_given_again_as_often_as_it_takes(tmp_path: Path) -> None:
    heard = Heard()
    assert states(swept(tmp_path, {1: ["lose_further"] * 5}, display=heard)) == ["done"] * 4
    assert Scripted.tried.count(1) == 6
    assert f"{PLAN[1].name} goes on elsewhere from step 5: its node died" in heard.notices
    assert "cause" not in RunFolder.read(tmp_path / PLAN[1].name).manifest


def test_a_run_that_is_lost_and_gets_no_further_fails_in_the_end(tmp_path: Path) -> None:
    found = swept(tmp_path, {1: ["lose_further", *["lose"] * 9]})
    assert states(found) == ["done", "failed", "done", "done"]
    assert found.standings[1].cause == "its node died"
    assert Scripted.tried.count(1) == 1 + 3


def test_the_cause_of_a_failure_is_gone_once_the_run_is_done(tmp_path: Path) -> None:
    swept(tmp_path, {1: ["raise"] * 3})
    assert RunFolder.read(tmp_path / PLAN[1].name).manifest["cause"] == "ValueError: raised"
    swept(tmp_path)
    assert "cause" not in RunFolder.read(tmp_path / PLAN[1].name).manifest


def test_a_run_that_another_process_left_meanwhile_is_taken_on_at_the_end(tmp_path: Path) -> None:
    other = RunFolder.open(tmp_path / PLAN[0].name, PLAN[0].identity(), {})

    class Leaves(Heard):
        def notice(self, text: str) -> None:
            other.close()

    assert states(swept(tmp_path, display=Leaves())) == ["done"] * 4
    assert Scripted.tried == [1, 2, 3, 0]


@pytest.mark.parametrize(("seconds", "tried"), [(60.0, [0, 1, 2, 3]), (0.0, [1, 2, 3, 0])])
def test_runs_that_belong_together_wait_a_while_for_one_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, tried: list[int]
) -> None:
    monkeypatch.setattr(Scripted, "together", 4)
    monkeypatch.setattr(driver, "TOGETHER_SECONDS", seconds)
    other = RunFolder.open(tmp_path / PLAN[0].name, PLAN[0].identity(), {})

    class Leaves(Heard):
        def show(self, found: Sequence[Standing]) -> None:
            super().show(found)
            if len(self.shown) == 3:
                other.close()

    assert states(swept(tmp_path, display=Leaves())) == ["done"] * 4
    assert Scripted.tried == tried


def test_a_folder_of_something_else_fails_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / PLAN[0].name).mkdir()
    (tmp_path / PLAN[0].name / "diary.txt").write_text("mine")
    found = swept(tmp_path)
    assert states(found) == ["failed", "done", "done", "done"]
    assert "is not a run" in found.standings[0].cause
    assert os.listdir(tmp_path / PLAN[0].name) == ["diary.txt"]


def test_ctrl_c_stops_and_the_same_call_continues(tmp_path: Path) -> None:
    class Pressed(Heard):
        def show(self, found: Sequence[Standing]) -> None:
            super().show(found)
            if len(self.shown) == 2:
                os.kill(os.getpid(), signal.SIGINT)

    found = swept(tmp_path, display=Pressed())
    assert found.interrupted
    assert states(found)[:2] == ["done", "done"]
    assert "left" in states(found)
    assert states(swept(tmp_path)) == ["done"] * 4
    assert sorted(Scripted.tried) == [0, 1, 2, 3]


def test_stop_after_ends_the_call_early(tmp_path: Path) -> None:
    found = swept(tmp_path, stop_after=0.0)
    assert (found.interrupted, states(found)) == (True, ["done", "left", "left", "left"])


def test_what_is_on_now_is_shown_as_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXECUTORS, "scripted", "tests.sweep.scripted:OneByOne")
    heard = Heard()
    swept(tmp_path, runs=PLAN[:1], display=heard)
    assert heard.shown == [["running"], ["running"], ["running"], ["done"]]


def test_a_second_sweep_of_a_folder_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    refusal = pytest.raises(RunConflict, match=rf"another process \(pid {os.getpid()}\) is sweeping into {tmp_path}")
    with claim(tmp_path, LOCK, "sweeping into"), refusal:
        swept(tmp_path)
    assert states(swept(tmp_path)) == ["done"] * 4


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"runs": []}, BadSetting, "empty plan"),
        ({"on": "moon"}, UnknownName, "unknown place to run a sweep 'moon'. Known: fleet, local, ray, scripted, slurm"),
        ({"jobs": 0}, BadSetting, "jobs must be a whole number from 1"),
        ({"streams": 1.5}, BadSetting, "streams must be a whole number"),
        ({"checkpoint_every": -3}, BadSetting, "checkpoint_every must be"),
        ({"stop_after": float("nan")}, BadSetting, "stop_after must be a number of seconds from 0, got nan"),
        ({"stop_after": -0.5}, BadSetting, "stop_after must be a number of seconds from 0, got -0.5"),
        (
            {"runs": grid("qrc", "minatar/breakout", settings=["network=Conv((4,),((30,3),),((1,1),),16)"])},
            BadSetting,
            "an image of 10 x 10 is too small",
        ),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path: Path, changes: dict, error: type, said: str) -> None:
    words = {"runs": PLAN, "out": tmp_path / "out", "on": "scripted", **changes}
    with pytest.raises(error, match=said):
        sweep(words.pop("runs"), words.pop("out"), **words)
    assert not list(tmp_path.iterdir())


class Shut(Scripted):
    """A place that turns everything away once it is asked to train."""

    def wait(self, seconds: float) -> list[Any]:
        raise HeadraceError("the place is shut")


@pytest.mark.parametrize("there", [[], ["deep"], ["deep", "deep/out"], ["deep", "deep/out", "deep/out/mine"]])
def test_a_place_that_refuses_leaves_what_was_there(
    there: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXECUTORS, "shut", "tests.sweep.test_driver:Shut")
    for name in there:
        (tmp_path / name).mkdir()
    with pytest.raises(HeadraceError, match="the place is shut"):
        sweep(PLAN, tmp_path / "deep" / "out", on="shut")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == there


def test_a_sweep_that_is_refused_leaves_the_lock_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the other came while this one was asking."""
    with pytest.raises(RunConflict), claim(tmp_path, LOCK, "sweeping into"):
        swept(tmp_path)
    assert (tmp_path / LOCK).exists()

    def taken(*_: Any) -> None:
        held.append(claim(tmp_path, LOCK))
        raise HeadraceError("another was faster")

    held: list[Any] = []
    (tmp_path / LOCK).unlink()
    monkeypatch.setattr("headrace.sweep.driver._require_able", taken)
    with pytest.raises(HeadraceError, match="another was faster"):
        swept(tmp_path)
    assert (tmp_path / LOCK).exists()
    held[0].close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match=r"cannot write .*file"):
        swept(tmp_path / "file")
