"""Questions about the paper: their answers as agents, and how they are judged."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.agents import VARIANTS
from headrace.analysis.paper import share_of_best
from headrace.analysis.records import find_runs
from headrace.analysis.scores import Group, groups
from headrace.analysis.stats import Comparison, Interval
from headrace.errors import UnknownName
from headrace.training.run import make_run
from tests.analysis.synthetic import MINATAR, write_run

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
from readings import QUESTIONS, Judged, judged, question, readings_table, word

sys.path.pop(0)


def made(folder: Path, scores: dict[tuple[str, str], list[float]], envs: tuple[str, ...] = MINATAR) -> Group:
    """A group of runs with these scores, one a seed, the same in every environment."""
    for (variant, setting), values in scores.items():
        for env in envs:
            for seed, value in enumerate(values):
                run = make_run(variant, env, seed=seed, steps=1e6, settings=[setting] if setting else [])
                write_run(folder, run, value)
    (group,) = groups(find_runs(folder).records)
    return group


def row(found: list[Judged], name: str, base: str, label: str) -> Judged:
    return next(one for one in found if (one.question.name, one.base, one.label) == (name, base, label))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    scores = {
        ("qrc", ""): [4.0, 5.0, 6.0],
        ("qrc", "td.lr=3e-5"): [1.0, 1.1, 1.2],
        ("qrc", "td.lr=3e-4"): [4.1, 5.1, 5.7],
        ("qrc+spr", ""): [2.0, 2.1, 2.2],
        ("qrc+spr", "aux.weight=0.4"): [3.0, 3.1, 3.2],
        ("qrc+spr", "aux.weight=0.1"): [9.0, 9.0],
    }
    return judged(made(tmp_path_factory.mktemp("runs"), scores), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "base", "label", "word", "runs"),
    [
        ("learning_rate", "qrc", "1e-4", "default", 15),
        ("learning_rate", "qrc", "3e-5", "worse", 15),
        ("learning_rate", "qrc", "3e-4", "not separated", 15),
        ("weight", "qrc+spr", "0.4", "better", 15),
        ("weight", "qrc+spr", "0.1", "not enough runs", 10),
        ("weight", "qrc+spr", "without SPR", "better", 15),
        ("weight", "qrc+spr+orth", "without SPR", "not enough runs", 15),
        ("released", "qrc+spr+orth", "as released", "not enough runs", 0),
    ],
)
def test_an_answer_is_judged_by_the_interval_of_its_difference(
    found: list[Judged], name: str, base: str, label: str, word: str, runs: int
) -> None:
    one = row(found, name, base, label)
    assert (one.word, one.runs) == (word, runs)


def test_the_difference_is_that_of_the_means_in_shares_of_the_papers_best(found: list[Judged]) -> None:
    one = row(found, "weight", "qrc+spr", "0.4")
    assert one.compared is not None
    by_hand = np.mean([share_of_best(env, 3.1) - share_of_best(env, 2.1) for env in MINATAR])
    assert one.compared.difference.value == pytest.approx(by_hand, rel=1e-6)
    assert one.mean_return == pytest.approx(3.1)


def test_two_games_are_too_few(tmp_path: Path) -> None:
    scores = {("qrc", ""): [4.0, 5.0, 6.0], ("qrc", "td.lr=3e-5"): [1.0, 1.1, 1.2]}
    two = judged(made(tmp_path, scores, MINATAR[:2]), np.random.default_rng(0))
    assert row(two, "learning_rate", "qrc", "3e-5").word == "not enough runs"


def test_the_table_shows_what_is_known_and_its_csv_has_everything(found: list[Judged], tmp_path: Path) -> None:
    group = made(tmp_path, {("qrc", ""): [1.0]}, MINATAR[:1])
    table = readings_table(group, found)
    shown = [[cell.text for cell in cells[:3]] for cells in table.rows]
    assert ["weight", "qrc+spr", "0.4"] in shown
    assert ["weight", "qrc+spr", "0.1"] not in shown
    assert any("qrc+spr 0.1 (10 runs)" in note for note in table.notes)
    assert len(table.data) == len(found)


def test_the_first_answer_is_the_default_reading() -> None:
    for asked in QUESTIONS:
        for base in asked.bases:
            assert asked.of(base)[0][1] == base
            assert base in VARIANTS


def test_a_question_holds_its_variants_answers_and_what_they_stand_beside() -> None:
    assert len(question("weight").runs()) == (2 * 4 + 1) * 15
    assert len(question("released").runs()) == 3 * 15
    with pytest.raises(UnknownName, match="unknown question 'wight'; did you mean 'weight'"):
        question("wight")


@pytest.mark.parametrize(
    ("low", "high", "p", "said"),
    [
        (0.1, 0.3, 0.01, "better"),
        (-0.3, -0.1, 0.01, "worse"),
        (-0.1, 0.3, 0.01, "not separated"),
        (0.1, 0.3, 0.05, "not separated"),
        (0.1, 0.3, float("nan"), "not separated"),
    ],
)
def test_an_interval_and_a_test_have_to_agree(low: float, high: float, p: float, said: str) -> None:
    found = Interval((low + high) / 2, low, high)
    assert word(Comparison("a", "b", found, found, p, p_holm=1.0)) == said


def test_what_was_not_compared_has_not_enough_runs() -> None:
    assert word(None) == "not enough runs"
