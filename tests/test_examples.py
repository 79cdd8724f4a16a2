"""What the examples print, and what the page of the first step says of their table."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "results/first_step.csv"


@pytest.fixture(scope="module")
def first_step():
    return runpy.run_path(str(ROOT / "examples/first_step.py"))["main"]


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_first_steps_are_measured_with_and_without_the_guard(first_step, tmp_path, capsys):
    """On a vector environment an unguarded first step is some per cent of all parameters, thirty times the guarded."""
    path = tmp_path / "found.csv"
    words = ["gym/CartPole-v1", "--agents", "qrc", "qrc+unguarded", "--steps", "12", "--csv", str(path)]
    assert first_step(words) == 0
    guarded, unguarded = rows(path)
    assert (guarded["agent"], unguarded["agent"], guarded["steps"]) == ("qrc", "qrc+unguarded", "12")
    assert float(guarded["share"]) < 0.01 < float(unguarded["share"])
    assert guarded["sight_before"] == unguarded["sight_before"]
    shown = capsys.readouterr().out
    assert "gym/CartPole-v1: 2 actions" in shown
    assert f"qrc+unguarded{float(unguarded['largest']):25.4g}" in shown


def test_a_game_that_is_not_installed_is_passed_over(first_step, monkeypatch, capsys):
    monkeypatch.setattr("headrace.envs.registry.find_spec", lambda name: None)
    assert first_step(["atari/pong"]) == 0
    assert "atari/pong: not installed, skipped (pip install 'headrace[atari]')" in capsys.readouterr().out


def test_guarded_agents_hardly_move_at_first_and_see_afterwards():
    """Of the recorded games: the first ten steps are below 2% of the parameters each, sight after 5,000 above 1%."""
    found = [row for row in rows(TABLE) if not row["agent"].endswith("+unguarded")]
    assert len({row["agent"] for row in found}) == 9
    assert {row["environment"] for row in found} >= {"atari/breakout", "atari/pong", "octax/pong"}
    assert all(float(row["share"]) < 0.02 for row in found)
    assert all(row["steps"] == "5000" and float(row["sight_after"]) > 0.01 for row in found)


def test_the_page_says_what_was_recorded():
    page = (ROOT / "docs/first_step.md").read_text()
    for row in rows(TABLE):
        largest, share, after = (float(row[name]) for name in ("largest", "share", "sight_after"))
        line = f"| {row['environment']} | {row['agent']} | {largest:.3g} | {share:.2%} | {after:.2g} |"
        assert line in page, f"docs/first_step.md lacks {line}"
