"""The paper's tables as plans: how many runs, of what, and what is said of a table that is not there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headrace.agents import VARIANTS, name_of
from headrace.errors import HeadraceError
from headrace.reproduce import plans
from headrace.sweep.plan import read_plan

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_the_minatar_table_is_nine_variants_on_five_games_with_five_seeds() -> None:
    runs = plans.runs_of(plans.tables_of("minatar"))
    assert len(runs) == 225
    assert set(Counter(name_of(run.agent) for run in runs).items()) == {(name, 25) for name in VARIANTS}
    assert {run.steps for run in runs} == {5_000_000}


def test_atari_and_octax_are_counted_in_steps_of_four_frames() -> None:
    assert [table.steps for table in plans.tables_of("octax")] == [5_000_000]
    assert [table.steps for table in plans.tables_of("atari")] == [10_000_000, 25_000_000]


def test_the_plan_file_and_the_command_have_the_same_runs() -> None:
    tables = [table for suite in ("minatar", "octax", "atari") for table in plans.tables_of(suite)]
    assert read_plan(EXPERIMENTS / "paper.py") == plans.runs_of(tables)


def test_steps_and_seeds_can_be_others() -> None:
    runs = plans.runs_of(plans.tables_of("minatar", steps=1e6, seeds="0:3"))
    assert len(runs) == 9 * 5 * 3
    assert {(run.steps, run.seed) for run in runs} == {(1_000_000, seed) for seed in range(3)}


def test_a_length_that_the_paper_has_is_its_table_of_that_length() -> None:
    assert plans.tables_of("atari", steps=25e6) == (plans.ATARI_100M,)
    (other,) = plans.tables_of("atari", steps=1e6)
    assert (other.variants, other.steps) == (plans.NINE, 1_000_000)


@pytest.mark.parametrize(
    ("suite", "changes", "said"),
    [
        ("minatr", {}, "unknown table of the paper 'minatr'; did you mean 'minatar'"),
        ("minatar", {"steps": 0}, "steps must be a whole number from 1"),
        ("minatar", {"steps": 1.5}, "steps must be a whole number"),
    ],
)
def test_a_bad_table_is_an_error_that_names_the_word(suite: str, changes: dict, said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        plans.tables_of(suite, **changes)


def test_the_quick_plan_is_one_game() -> None:
    runs = plans.QUICK.runs()
    assert len({run.env for run in runs}) == 1
    assert {"qrc", "qrc+spr+orth"} <= {name_of(run.agent) for run in runs}
    assert len({run.seed for run in runs}) >= 3
