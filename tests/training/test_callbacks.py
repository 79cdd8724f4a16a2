"""A user's functions are called where a run stands, and one that returns True stops it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.base import EpisodeResult
from headrace.errors import BadSetting, HeadraceError
from headrace.runs.folder import RunFolder
from headrace.sweep.driver import sweep
from headrace.training.callbacks import Now, callbacks_of
from tests.small_runs import WAYS, assert_same_result, small_train
from tests.sweep.support import tiny

HOW = {**WAYS["learner"], "steps": 2500, "checkpoint_every": None}


def test_callbacks_hear_of_every_step_episode_and_log_point_and_change_nothing(tmp_path: Path) -> None:
    steps: list[int] = []
    episodes: list[EpisodeResult] = []
    rows: list[Mapping[str, float]] = []

    def on_step(now: Now) -> None:
        steps.append(now.step)
        if now.step == 7:
            assert int(now.arrays()["stream/agent/step"]) == 7

    heard = small_train(
        tmp_path / "heard",
        on_step=on_step,
        on_episode=lambda now, episode: episodes.append(episode),
        on_log=lambda now, row: rows.append(row),
        **HOW,
    )
    folder = RunFolder.read(heard.path)
    assert steps == list(range(1, 2501))
    assert [e.step for e in episodes] == folder.episodes()["step"].tolist()
    assert [row["return"] for row in rows] == folder.metrics()["return"].tolist()
    assert_same_result(heard.path, small_train(tmp_path / "alone", **HOW).path)


@pytest.mark.parametrize(
    ("name", "stop", "least"),
    [
        ("on_step", lambda now: now.step >= 41, 41),
        ("on_episode", lambda now, episode: now.step > 500, 501),
        ("on_log", lambda now, row: row["step"] >= 1000, 1000),
    ],
)
def test_a_callback_that_returns_true_stops_the_run_which_continues_exactly(
    name: str, stop: Any, least: int, tmp_path: Path
) -> None:
    first = small_train(tmp_path / "stopped", **{name: stop}, **HOW)
    assert first.status == "interrupted"
    assert least <= first.steps_done < 2500
    cause = RunFolder.read(first.path).manifest["cause"]
    assert cause.startswith(f"{name} returned True at step ")
    small_train(tmp_path / "stopped", **HOW)
    assert "cause" not in RunFolder.read(first.path).manifest
    assert_same_result(first.path, small_train(tmp_path / "alone", **HOW).path)


def test_what_a_callback_raises_is_said_with_its_line_and_the_run_goes_on_without_it(tmp_path: Path) -> None:
    def on_log(now: Now, row: Mapping[str, float]) -> None:
        raise KeyError("no such metric")

    with pytest.raises(HeadraceError, match=r"the callback on_log raised KeyError at step 1,000 \(.*test_callbacks.py"):
        small_train(tmp_path, on_log=on_log, **HOW)
    assert small_train(tmp_path, **HOW).status == "finished"


def module(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_a_module_without_callbacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSetting, match="has no function named on_step, on_episode or on_log"):
        callbacks_of(module(tmp_path, "without_callbacks", "", monkeypatch))
    with pytest.raises(HeadraceError, match="cannot import no_such_module"):
        callbacks_of("no_such_module")


def test_a_sweep_s_workers_call_them_and_leave_what_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def on_log(now, row):\n    return now.run.seed == 1 and now.step >= 1000\n"
    name = module(tmp_path, "stopping_one_seed", text, monkeypatch)
    runs = tiny("strq", "minatar/breakout", "0:2", 2000, engine="learner")
    swept = sweep(runs, tmp_path / "out", jobs=1, callbacks=name, eval_every=1000, eval_episodes=1)
    assert [(s.state, s.step) for s in swept.standings] == [("done", 2000), ("left", 1000)]
    assert [len((s.path / "evaluations.csv").read_text().splitlines()) - 1 for s in swept.standings] == [2, 1]
    with pytest.raises(BadSetting, match="one by one"):
        sweep(runs, tmp_path / "out", on="fleet", callbacks=name)
