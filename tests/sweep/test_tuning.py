"""Tuning: what may be tried, trials that are compared at equal points, a search that continues where it stopped."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.agents import agent_named
from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.runs.folder import RunFolder
from headrace.sweep import tuning
from headrace.sweep.tuning import Range, Tuning, range_of, scales_of
from tests.sweep.support import TINY


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("td.lr=log:1e-5:1e-3", Range("td.lr", 1e-5, 1e-3, log=True)),
        ("td.lamda=0:0.99", Range("td.lamda", 0.0, 0.99)),
        ("aux.objective.horizon=1:8", Range("aux.objective.horizon", 1.0, 8.0, whole=True)),
        ("aux.gate=Always() | Every(5)", Range("aux.gate", choices=("Always()", "Every(5)"))),
    ],
)
def test_a_range_is_a_number_s_or_a_choice(text: str, wanted: Range) -> None:
    found = range_of(text, agent_named("qrc+spr"))
    assert repr(found) == repr(wanted)  # NaN where there are choices


@pytest.mark.parametrize("text", ["td.lr", "td.lr=1e-3", "td.lr=1:0", "td.lr=log:0:1", "td.lr=a:b", "td.lr=0:inf"])
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(HeadraceError, match=r"a range (is|goes from)"):
        range_of(text, agent_named("qrc"))


def tuned(out: Path, over: str = "td.kappa=0.5:4", **more: Any) -> Tuning:
    given = {"seeds": "0:2", "steps": 2000, "budget": 2, "settings": [TINY], "engine": "learner", **more}
    return Tuning("strq", "minatar/breakout", [over], out=out, **given)


def test_mistakes_are_said_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "require_package", lambda *_: None)
    for over in ("td.kapa=1:2", "td.kappa=-1:2"):
        with pytest.raises(HeadraceError, match="kappa"):
            tuned(tmp_path, over)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_said_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.errors.find_spec", lambda name: None)
    with pytest.raises(HeadraceError, match=r"pip install 'headrace\[tune\]'"):
        tuned(tmp_path)


def test_a_game_in_which_the_untuned_agent_scores_nothing_decides_nothing_alone() -> None:
    assert scales_of({"minatar/asterix": -2.0, "minatar/freeway": 0.0}) == {
        "minatar/asterix": 2.0,
        "minatar/freeway": 1.0,
    }
    assert scales_of({"minatar/asterix": 2.0}) == {"minatar/asterix": 1.0}


def test_points_of_a_trial_come_run_by_run_and_wait_for_what_is_not_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "require_package", lambda *_: None)
    search = tuned(tmp_path, steps=20_000)
    search.scales = {"minatar/breakout": 2.0}
    runs = search.plan(["td.kappa=2"])
    points = search._points(runs)
    assert next(points) == (0, None)
    with RunFolder.open(tmp_path / runs[0].name, runs[0].identity(), {}) as folder:
        folder.resume()
        for step in range(1000, 20_001, 1000):
            folder.append_metrics({"step": step, "return": 0.004 * step / 2})
    found = [next(points) for _ in range(20)]
    assert [index for index, _ in found] == list(range(1, 21))
    assert found[-1][1] == pytest.approx(20.0)
    assert next(points) == (0, None)  # the second run has not begun


def test_a_search_ends_in_a_table_and_a_command_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optuna = pytest.importorskip("optuna")
    words = ["tune", "strq", "minatar/breakout", "--over", "td.kappa=0.5:4", "--seeds", "0:2", "--steps", "2000"]
    words += ["--set", TINY, "--engine", "learner", "--jobs", "1", "--out", str(tmp_path), "--quiet"]
    assert main([*words, "--budget", "2"]) == 0
    table = capsys.readouterr().out
    assert "2 trials, 0 of them pruned" in table
    assert "headrace sweep strq minatar/breakout --seeds 2:7 --steps 2000 --engine learner --set" in table
    best = table.splitlines()[1].split()
    assert best[1].startswith("td.kappa=")
    assert best[1] in table.splitlines()[-1]

    # What was stopped in the middle of a trial has left that trial running; it is begun again with the same numbers.
    (journal,) = tmp_path.glob("tune-*.journal")
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    study = optuna.load_study(study_name=journal.stem, storage=storage)
    half = study.ask()
    value = half.suggest_float("td.kappa", 0.5, 4)
    monkeypatch.setattr(optuna.trial.Trial, "should_prune", lambda self: True)
    assert main([*words, "--budget", "3"]) == 0
    table = capsys.readouterr().out
    assert "3 trials, 1 of them pruned" in table
    assert f"pruned  td.kappa={value:.3g}" in table
    states = [trial.state.name for trial in optuna.load_study(study_name=journal.stem, storage=storage).trials]
    assert states == ["COMPLETE", "COMPLETE", "FAIL", "PRUNED"]
    assert not math.isnan(value)


@pytest.mark.parametrize("content", [b'{"op_code": 99}\n', b"\xff\xfe{{{\n", None], ids=["words", "bytes", "pipe"])
def test_a_damaged_record_of_a_search_is_named_with_a_remedy(content: bytes | None, tmp_path: Path) -> None:
    search = tuned(tmp_path)
    search._study(pytest.importorskip("optuna"))
    (journal,) = tmp_path.glob("*.journal")
    if content is None:
        journal.unlink()
        os.mkfifo(journal)
    else:
        journal.write_bytes(content)
    with pytest.raises(HeadraceError, match=rf"{journal} .*: remove it"):
        search._study(pytest.importorskip("optuna"))


def test_a_line_that_a_killed_search_left_unfinished_is_cut_back(tmp_path: Path) -> None:
    optuna, search = pytest.importorskip("optuna"), tuned(tmp_path)
    search._study(optuna).ask()
    (journal,) = tmp_path.glob("*.journal")
    os.truncate(journal, journal.stat().st_size - 7)
    whole = journal.read_bytes().splitlines(keepends=True)[:-1]
    search._study(optuna).ask()
    assert journal.read_bytes().startswith(b"".join(whole))
    assert all(json.loads(line) for line in journal.read_bytes().splitlines())
