"""Pairs of agents: permutation tests and Holm's correction."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import permutation_test, t as student, ttest_1samp, ttest_ind

from headrace.analysis import stats
from headrace.analysis.stats import common_tasks, holm, pairwise, permutation_p, student_p, t_test_p


def test_holm_by_hand():
    """0.01 * 4, 0.02 * 3, 0.03 * 2 -> 0.06 (never below the one before), 0.5."""
    np.testing.assert_allclose(holm([0.03, 0.01, 0.5, 0.02]), [0.06, 0.04, 0.5, 0.06])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])


def test_a_pair_without_a_test_does_not_count():
    corrected = holm([0.02, np.nan, 0.01])
    np.testing.assert_allclose(corrected[[0, 2]], [0.02, 0.02])
    assert np.isnan(corrected[1])


def test_the_p_value_of_one_task_is_scipys(rng):
    x, y = rng.normal(0.8, 1, (5, 1)), rng.normal(0, 1, (5, 1))
    exact = permutation_test((x[:, 0], y[:, 0]), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf)
    assert permutation_p(x, y, stats.mean, rng, 20_000) == pytest.approx(exact.pvalue, abs=0.015)


def test_the_p_value_of_two_tasks_by_enumeration(rng):
    """Every way of dealing four runs of each task to two agents of two runs."""
    x, y = rng.normal(0.5, 1, (2, 2)), rng.normal(0, 1, (2, 2))
    pooled, seen = np.concatenate([x, y]), abs(x.mean() - y.mean())
    deals = list(combinations(range(4), 2))
    hits = [
        abs(
            np.mean([pooled[list(d), t].mean() for t, d in enumerate(deal)])
            - np.mean([np.delete(pooled[:, t], d).mean() for t, d in enumerate(deal)])
        )
        >= seen - 1e-12
        for deal in ((a, b) for a in deals for b in deals)
    ]
    assert permutation_p(x, y, stats.mean, rng, 20_000) == pytest.approx(np.mean(hits), abs=0.015)


def test_what_no_exchange_reaches_has_the_chance_of_one_among_all_tried(rng):
    x, y = np.arange(10.0)[:, None] + 100, np.arange(10.0)[:, None]
    assert permutation_p(x, y, stats.mean, rng, 9) == 0.1


@pytest.mark.parametrize("freedom", [1.0, 1.7, 2.0, 9.3, 400.0])
@pytest.mark.parametrize("t", [0.0, 0.5, 2.1, 12.0])
def test_students_t_is_scipys(t, freedom):
    assert student_p(t, freedom) == pytest.approx(2 * student.sf(t, freedom), rel=1e-3, abs=1e-12)


def test_the_t_test_of_one_task_is_scipys(rng):
    x = rng.normal(0.5, 1, (5, 1))
    assert t_test_p(x, 0.2) == pytest.approx(ttest_1samp(x[:, 0], 0.2).pvalue, rel=1e-5)


def test_the_t_test_of_two_tasks_is_welchs(rng):
    """The sum of a task and of the other, mirrored, is their difference."""
    x, y = rng.normal(0.5, 1, 5), rng.normal(0, 3, 4)
    both = np.stack([x, np.append(-y, np.nan)], axis=1)
    assert t_test_p(both, 0.0) == pytest.approx(ttest_ind(x, y, equal_var=False).pvalue, rel=1e-5)


def test_the_t_test_is_about_these_tasks():
    """Tasks that differ in sign do not hide a mean that every seed shows; one run in a task shows nothing."""
    x = np.array([[0.10, -0.05], [0.11, -0.06], [0.09, -0.04]])
    assert t_test_p(x, 0.0) < 0.01
    assert t_test_p(np.ones((3, 2)), 0.5) == 0
    assert t_test_p(np.ones((3, 2)), 1.0) == 1
    assert np.isnan(t_test_p(np.array([[1.0, 2.0], [2.0, np.nan]]), 0.0))


def test_without_a_difference_p_values_are_uniform(rng):
    found = [permutation_p(*rng.normal(0, 1, (2, 4, 3)), stats.mean, rng, 199) for _ in range(200)]
    assert 0.02 <= np.mean(np.array(found) <= 0.1) <= 0.18


def test_a_pair_is_compared_on_the_tasks_that_both_have(rng):
    x = np.array([[1.0, 5.0, np.nan], [2.0, 6.0, np.nan]])
    y = np.array([[0.0, np.nan, 7.0], [1.0, np.nan, 8.0]])
    assert [m.shape for m in common_tasks(x, y)] == [(2, 1), (2, 1)]
    (found,) = pairwise({"x": x, "y": y}, [("x", "y")], rng)
    assert found.difference.value == 1.0
    assert found.improvement.value == 0.875
    assert found.p_holm == found.p


def test_one_run_each_has_no_p_value(rng):
    (found,) = pairwise({"x": np.array([[1.0]]), "y": np.array([[0.0]])}, [("x", "y")], rng)
    assert np.isnan(found.p)
    assert found.difference.value == 1.0
