"""`headrace reproduce` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.analysis.records import find_runs, is_report
from headrace.cli.main import main
from headrace.reproduce import latents, plans
from headrace.reproduce.plans import PaperTable
from tests.analysis.synthetic import write_run

TINY = PaperTable("a tiny table", ("strq", "dqn"), "minatar/breakout", 2_000, "0:1")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """In an empty folder, where the paper's table and the quick one are of two short runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plans, "QUICK", TINY)
    monkeypatch.setitem(plans.TABLES, "minatar", (TINY,))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("minatr", "headrace: unknown table of the paper 'minatr'; did you mean 'minatar'"),
        ("octax --quick", "headrace: --quick goes with minatar, got octax"),
        ("minatar --quick --steps 1e6", "headrace: --quick says which runs there are; --steps and --seeds go with"),
        ("minatar --seeds 3:3", "headrace: an empty grid: the seeds '3:3' name none"),
        ("minatar --steps 0.5", "headrace: steps must be a whole number"),
        ("minatar --streams 9", "headrace: --streams goes with --on fleet, got --on local"),
        ("minatar --on moon", "headrace: unknown place to run a sweep 'moon'"),
        ("minatar --jobs 0", "headrace: jobs must be a whole number from 1"),
        ("minatar --status", "headrace: there is no folder results with results"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words.split()]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith(said)
    assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == []


def test_status_says_what_results_hold_of_the_225(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, plans.MINATAR.runs()[7], 3.0)
    assert main(["reproduce", "minatar", "--status", "--json", "--results", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["suite"], said["wanted"], said["done"], said["runs_1m"], said["runs_5m"]) == ("minatar", 225, 1, 0, 1)
    assert len(said["missing"]) == said["missing_count"] == 224


def test_stopped_continued_and_done_it_ends_in_the_report(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "minatar", "--quick", "--jobs", "1", "--quiet"]
    assert main([*words, "--stop-after", "0"]) == 130
    said = capsys.readouterr()
    assert "headrace: a tiny table: 2 runs, 2 to do, in runs/reproduce_minatar_quick" in said.err
    assert said.out.startswith("stopped and saved, the same command continues: runs/reproduce_minatar_quick  0/2 done")
    assert main(words) == 0
    page = tiny / "runs/reproduce_minatar_quick/report/index.html"
    said = capsys.readouterr()
    assert said.out == "2/2 done; the report is runs/reproduce_minatar_quick/report/index.html\n"
    assert is_report(page.parent)
    assert "strq" in page.read_text()
    assert len(find_runs(tiny / "runs").records) == 2
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert "2 runs, 0 to do" in said.err
    assert json.loads(said.out) == {
        "out": "runs/reproduce_minatar_quick", "done": 2, "running": 0, "failed": 0, "diverged": 0, "left": 0,
        "interrupted": False, "page": "runs/reproduce_minatar_quick/report/index.html",
    }  # fmt: skip


def test_the_whole_table_ends_with_a_look_at_latents(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, run in enumerate(TINY.runs()):
        write_run(tiny / "runs/reproduce_minatar", run, 1.0 + number, rows=60)
    looked: list[Path] = []
    monkeypatch.setattr(latents, "analyse_all", lambda paths, cores, say: looked.extend(paths))
    assert main(["reproduce", "minatar", "--jobs", "1"]) == 0
    said = capsys.readouterr()
    assert "2 runs, 0 to do" in said.err
    assert sorted(path.name for path in looked) == sorted(run.name for run in TINY.runs())
    assert said.out == "2/2 done; the report is runs/reproduce_minatar/report/index.html\n"
