"""Evaluations during training: their rows, the best checkpoint, and a run that does not notice them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import make_env
from headrace.errors import BadSetting, HeadraceError, TableChanged
from headrace.runs.folder import RunFolder
from headrace.training.evaluation import best_of, evaluate
from headrace.training.fleet import train_fleet
from headrace.training.progress import Progress
from headrace.training.single import Trained, train
from tests.small_runs import WAYS, StopAt, assert_same_result, contents, small_train
from tests.sweep.support import tiny

HOW = {**WAYS["learner"], "steps": 2500, "checkpoint_every": 500}
EVALS = {"eval_every": 600, "eval_episodes": 3}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run with evaluations. Do not change it."""
    return small_train(tmp_path_factory.mktemp("judged"), **EVALS, **HOW)


def test_a_run_has_a_row_for_each_interval_and_for_its_end(judged: Trained) -> None:
    table = RunFolder.read(judged.path).evaluations()
    assert table["step"].tolist() == [600, 1200, 1800, 2400, 2500]
    assert (table["episodes"] == 3).all()
    assert (table["min"] <= table["mean"]).all()
    assert (table["mean"] <= table["max"]).all()


def test_a_row_is_what_an_evaluation_of_that_checkpoint_gives(judged: Trained) -> None:
    found = evaluate(judged.path, episodes=3)
    table = RunFolder.read(judged.path).evaluations()
    assert (found.step, found.returns.mean()) == (2500, table["mean"][-1])


def test_the_checkpoint_with_the_highest_mean_is_kept(judged: Trained) -> None:
    table = RunFolder.read(judged.path).evaluations()
    step = table["step"][np.argmax(table["mean"])]  # the first of equals
    assert best_of(judged.path)[1].step == step
    found = evaluate(judged.path, episodes=3, best=True)
    assert (found.step, found.returns.mean()) == (step, table["mean"].max())


def test_the_run_does_not_notice(judged: Trained, tmp_path: Path) -> None:
    alone = small_train(tmp_path, **HOW)
    assert_same_result(judged.path, alone.path)
    with pytest.raises(HeadraceError, match="keeps no best checkpoint: train it with --eval-every"):
        evaluate(alone.path, best=True)


def test_a_run_stopped_between_evaluations_continues_with_the_same_rows(judged: Trained, tmp_path: Path) -> None:
    stopped = small_train(tmp_path, progress=StopAt(1000), **EVALS, **HOW)
    assert stopped.status == "interrupted"
    (stopped.path / "evaluations.csv").write_text((judged.path / "evaluations.csv").read_text())  # as if it went back
    small_train(tmp_path, **EVALS, **HOW)
    ours, theirs = contents(stopped.path), contents(judged.path)
    assert ours["evaluations.csv"][0] == theirs["evaluations.csv"][0]
    kept = [name for name in theirs if name.startswith("best/")]
    assert [name for name in ours if name.startswith("best/")] == kept
    assert_same_result(stopped.path, judged.path)


class Removes(Progress):
    """The table of evaluations, once it has a row."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        if step == 1500:
            next(self.out.glob("*/evaluations.csv")).unlink()


def test_evaluations_that_are_lost_are_told_and_cost_no_step(judged: Trained, tmp_path: Path) -> None:
    with pytest.raises(TableChanged, match=r"evaluations\.csv is gone\. The run stops, saved as of step 1,[5-8]\d\d"):
        small_train(tmp_path, progress=Removes(tmp_path), **EVALS, **HOW)
    again = StopAt(10_000)
    done = small_train(tmp_path, progress=again, **EVALS, **HOW)
    assert any("evaluations.csv was changed: it begins anew" in notice for notice in again.notices)
    assert RunFolder.read(done.path).evaluations()["step"].tolist() == [1800, 2400, 2500]
    assert_same_result(done.path, judged.path)


def test_a_finished_run_vouches_for_its_evaluations(judged: Trained, tmp_path: Path) -> None:
    run = shutil.copytree(judged.path, tmp_path / "run")
    (run / "evaluations.csv").write_text((run / "evaluations.csv").read_text().replace("600,", "700,"))
    with pytest.raises(HeadraceError, match=r"it was changed after it finished \(evaluations\.csv has other bytes"):
        RunFolder.read(run).require_sound()


@pytest.mark.usefixtures("programs")
def test_runs_of_a_fleet_are_evaluated_too(tmp_path: Path) -> None:
    runs = tiny("dqn", "minatar/breakout", "0:2", 1000)
    with pytest.raises(BadSetting, match="eval_every of a fleet must be a multiple of 1,000, got 600"):
        train_fleet(runs, tmp_path, eval_every=600)
    train_fleet(runs, tmp_path, eval_every=1000, eval_episodes=2)
    for run in runs:
        found = evaluate(tmp_path / run.name, episodes=2)
        assert RunFolder.read(tmp_path / run.name).evaluations()["mean"].tolist() == [found.returns.mean()]
        assert RunFolder.read(tmp_path / run.name).status == "finished"


def test_an_environment_that_is_one_object_cannot_be_played_beside_training(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="eval_every needs a second environment"):
        train("strq", make_env("probe/corridor"), steps=100, eval_every=50, out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [{"eval_every": 0}, {"eval_every": 100, "eval_episodes": 0}])
def test_numbers_that_make_no_sense_are_refused_before_anything_is_written(
    wrong: dict[str, int], tmp_path: Path
) -> None:
    with pytest.raises(BadSetting, match="must be a whole number from 1"):
        small_train(tmp_path, **wrong, **HOW)
    assert not list(tmp_path.iterdir())
