"""What a folder of results holds of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.reproduce.coverage import Missing, Place, coverage
from headrace.reproduce.plans import PaperTable
from headrace.training.run import Run, make_run
from tests.analysis.synthetic import write_run

PLAN = PaperTable("two agents", ("qrc", "strq"), "minatar/breakout,minatar/freeway", 5_000_000, "0:2").runs()


def by_reference(run: Run) -> Run:
    return replace(run, engine="reference", form="compiled")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs of the plan, one of them by both engines; one unfinished; shorter ones and others."""
    folder = tmp_path / "results"
    write_run(folder / "long", PLAN[0], 5.0)
    write_run(folder / "long", by_reference(PLAN[0]), 6.0)
    write_run(folder / "long", by_reference(PLAN[1]), 6.0)
    write_run(folder / "long", PLAN[2], 6.0, status="interrupted", share=0.5)
    for seed in range(3):
        write_run(folder / "short", make_run("dqn", "minatar/breakout", seed=seed, steps=1e6), 1.0)
    write_run(folder / "short", make_run("qrc", "minatar/breakout", steps=1e6, settings=["td.lr=3e-4"]), 1.0)
    write_run(folder / "short", make_run("qrc", "minatar/breakout", steps=1e6, settings=["env.sticky=0"]), 1.0)
    write_run(folder / "short", make_run("qrc", "probe/action", steps=1e6), 1.0)
    return folder


def test_runs_are_counted_once_whatever_engines_made_them(results: Path) -> None:
    found = coverage(results, "minatar", PLAN)
    assert (found.wanted, found.done, len(found.missing)) == (8, 2, 6)
    assert found.finished == {(5_000_000, "qrc"): 2, (1_000_000, "dqn"): 3}
    assert found.others == 2


def test_what_is_missing_is_named_with_its_state(results: Path) -> None:
    missing = coverage(results, "minatar", PLAN).missing
    assert missing[0] == Missing(Place("qrc", "minatar/freeway", 0, 5_000_000), "interrupted")
    assert missing[1] == Missing(Place("qrc", "minatar/freeway", 1, 5_000_000), "absent")


def test_json_has_the_two_lengths_and_adds_up(results: Path) -> None:
    said = coverage(results, "minatar", PLAN).as_json()
    assert (said["runs_1m"], said["runs_5m"]) == (3, 2)
    assert said["missing_count"] == len(said["missing"]) == said["wanted"] - said["done"]
    assert said["missing"][0] == {
        "variant": "qrc", "env": "minatar/freeway", "seed": 0, "steps": 5_000_000, "state": "interrupted",
    }  # fmt: skip


def test_text_is_a_table_of_the_nine_variants(results: Path) -> None:
    lines = coverage(results, "minatar", PLAN).text().splitlines()
    assert lines[0].split() == ["finished", "runs", "1M", "5M"]
    rows = {words[0]: words[1:] for words in map(str.split, lines)}
    assert (rows["dqn"], rows["qrc"], rows["together"]) == (["3", "-"], ["-", "2"], ["3", "2"])
    assert lines[-1] == f"{results}: 2 of 8 runs are finished, 6 are missing"


def test_a_damaged_run_is_not_counted_and_named(results: Path) -> None:
    path = next((results / "long").iterdir())
    (path / "manifest.json").write_text(
        (path / "manifest.json").read_text().replace('"steps": 5000000', '"steps": 1e400')
    )
    found = coverage(results, "minatar", PLAN)
    assert f"not counted: {path}: " in found.text()
    assert found.as_json()["problems"][0]["path"] == str(path)


def test_results_that_are_not_there_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"there is no folder .*nowhere.*--results"):
        coverage(tmp_path / "nowhere", "minatar", PLAN)
