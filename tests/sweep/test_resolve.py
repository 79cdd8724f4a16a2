"""Runs whose engine was left open: what a place makes of them, and what counts as done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from headrace.sweep.plan import grid
from headrace.sweep.status import BEGUN_ANEW, CONTINUED, resolved
from headrace.training.run import Run

PLAN = grid("strq", "minatar/breakout", seeds=[0], steps=1000)
FAST = replace(PLAN[0], engine="learner", form="host", notice="")
COMPILED = replace(PLAN[0], engine="reference", form="compiled", notice="")


def begun(run: Run, out: Path, status: str) -> None:
    with RunFolder.open(out / run.name, run.identity(), {}) as folder:
        folder.set_status(status, **({"diverged": {"quantity": "q", "step": 1}} if status == "diverged" else {}))


def test_a_fleet_has_the_reference_engine_and_cores_have_the_fast_one(tmp_path: Path) -> None:
    assert resolved([FAST], "local", tmp_path) == [FAST]
    assert resolved([FAST], "fleet", tmp_path) == [COMPILED]
    assert resolved([FAST, FAST], "ray", tmp_path) == [FAST]


@pytest.mark.parametrize("on", ["local", "fleet", "ray", "slurm"])
@pytest.mark.parametrize("status", ["finished", "diverged"])
def test_what_another_engine_has_ended_is_not_done_again(tmp_path: Path, on: str, status: str) -> None:
    other = COMPILED if on != "fleet" else FAST
    begun(other, tmp_path, status)
    assert [(run, run.notice) for run in resolved([FAST], on, tmp_path)] == [(other, "")]


def test_what_another_engine_began_is_continued_by_it_where_that_can_be(tmp_path: Path) -> None:
    begun(COMPILED, tmp_path / "reference", "interrupted")
    begun(FAST, tmp_path / "learner", "interrupted")
    assert [(r, r.notice) for r in resolved([FAST], "local", tmp_path / "reference")] == [(COMPILED, CONTINUED)]
    assert [(r, r.notice) for r in resolved([FAST], "fleet", tmp_path / "learner")] == [(COMPILED, BEGUN_ANEW)]


def test_an_engine_that_was_asked_for_is_the_one(tmp_path: Path) -> None:
    begun(COMPILED, tmp_path, "finished")
    asked = replace(FAST, open=False)
    assert resolved([asked], "local", tmp_path) == [FAST]


def test_a_run_of_its_own_goes_before_those_of_others(tmp_path: Path) -> None:
    begun(COMPILED, tmp_path, "finished")
    begun(FAST, tmp_path, "interrupted")
    assert resolved([FAST], "local", tmp_path) == [FAST]


@pytest.mark.parametrize("on", ["local", "fleet"])
def test_a_folder_of_another_engine_that_cannot_be_read_has_ended_nothing(tmp_path: Path, on: str) -> None:
    other = COMPILED if on != "fleet" else FAST
    (tmp_path / other.name).mkdir()
    (tmp_path / other.name / "manifest.json").write_text("{")
    (found,) = resolved([FAST], on, tmp_path)
    assert found == COMPILED  # which says what is wrong with it, or a fleet begins its own
