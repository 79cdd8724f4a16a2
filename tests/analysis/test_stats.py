"""Statistics equal the published package's, and hand numbers where runs are missing."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.analysis import stats
from headrace.analysis.stats import AGGREGATES, bootstrap, interval, percentiles, profile

SHAPES = [(1, 1), (2, 3), (3, 1), (5, 26), (7, 4)]
NAMES = {"mean": "aggregate_mean", "median": "aggregate_median", "iqm": "aggregate_iqm"}
NAMES["optimality_gap"] = "aggregate_optimality_gap"


def scores(shape, seed=0):
    return np.random.default_rng(seed).lognormal(0, 1, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", list(AGGREGATES))
def test_aggregates_equal_the_published_package(rliable, shape, name):
    x = scores(shape)
    np.testing.assert_allclose(AGGREGATES[name](x), getattr(rliable.metrics, NAMES[name])(x), rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_probability_of_improvement_does_too(rliable, shape):
    x, y = scores(shape).round(1), scores((shape[0] + 1, shape[1]), seed=1).round(1)  # rounded: there are ties
    ours = stats.probability_of_improvement(x, y)
    assert ours == pytest.approx(rliable.metrics.probability_of_improvement(x, y), abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_profiles_do_too(rliable, shape):
    x, thresholds = scores(shape), np.linspace(0, 4, 17)
    np.testing.assert_allclose(profile(x, thresholds), rliable.library.score_distributions(x, thresholds))


def same_draws(monkeypatch, seed):
    """Makes the package draw what our generator of that seed draws."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(np.random, "choice", lambda n, shape, replace: (rng.random(shape) * n).astype(int))


@pytest.mark.parametrize("name", ["mean", "iqm", "optimality_gap"])
def test_with_equal_draws_intervals_are_equal(rliable, monkeypatch, name):
    x = scores((5, 6))
    same_draws(monkeypatch, 3)
    theirs = getattr(rliable.metrics, NAMES[name])
    _, bounds = rliable.library.get_interval_estimates({"a": x}, lambda s: np.array([theirs(s)]), reps=400)
    found = interval(x, AGGREGATES[name], np.random.default_rng(3), repetitions=400)
    np.testing.assert_allclose([found.low, found.high], bounds["a"][:, 0], rtol=1e-12)


def test_intervals_of_two_samples_are_close_to_the_published_ones(rliable):
    x, y = scores((6, 5)), scores((4, 5), seed=1)
    np.random.seed(0)
    theirs = rliable.metrics.probability_of_improvement
    _, bounds = rliable.library.get_interval_estimates({"xy": [x, y]}, lambda a, b: np.array([theirs(a, b)]), reps=1000)
    found = interval((x, y), stats.probability_of_improvement, np.random.default_rng(0), repetitions=1000)
    np.testing.assert_allclose([found.low, found.high], bounds["xy"][:, 0], atol=0.04)


def test_blocks_do_not_change_a_bootstrap(monkeypatch):
    x = scores((4, 3))
    whole = bootstrap([x], stats.iqm, np.random.default_rng(0), 100)
    monkeypatch.setattr(stats, "BLOCK", 7 * x.size * 8)
    np.testing.assert_array_equal(bootstrap([x], stats.iqm, np.random.default_rng(0), 100), whole)


def test_equal_generators_give_equal_intervals():
    x = scores((5, 4))
    first, second = (interval(x, stats.mean, np.random.default_rng(9)) for _ in range(2))
    assert first == second


def test_the_bootstrap_covers_what_it_should():
    """About 95 of 100 intervals of the mean contain the truth; ten runs make percentile intervals a little narrow."""
    rng = np.random.default_rng(0)
    found = [interval(rng.normal(1.0, 1.0, (10, 5)), stats.mean, rng, repetitions=300) for _ in range(200)]
    assert 0.88 <= np.mean([f.low <= 1.0 <= f.high for f in found]) <= 0.98


MISSING = np.array([[1.0, 10.0, np.nan], [3.0, np.nan, np.nan], [np.nan, 20.0, np.nan]])


def test_a_task_counts_the_runs_it_has():
    assert stats.task_means(MISSING)[:2].tolist() == [2.0, 15.0]
    assert np.isnan(stats.task_means(MISSING)[2])
    assert stats.mean(MISSING) == 8.5
    assert stats.median(MISSING) == 8.5
    assert stats.iqm(MISSING) == 6.5  # of 1, 3, 10, 20 the middle two
    assert stats.optimality_gap(MISSING / 10) == pytest.approx(0.4)  # of 0.1, 0.3, 1, 1
    assert profile(MISSING, np.array([2.0, 10.0])).tolist() == [0.75, 0.25]  # above 10, of which 10 is not
    assert stats.probability_of_improvement(MISSING, np.array([[2.0, 10.0, 0.0]])) == pytest.approx(0.625)


def test_missing_runs_are_never_drawn():
    drawn = stats.resampled(MISSING, 200, np.random.default_rng(0))
    assert (np.isnan(drawn).sum(axis=1) == [1, 1, 3]).all()
    assert set(drawn[:, :, 0][~np.isnan(drawn[:, :, 0])]) == {1.0, 3.0}


def test_nothing_at_all_is_not_a_number():
    nothing = np.full((2, 2), np.nan)
    assert all(np.isnan(f(nothing)) for f in AGGREGATES.values())
    assert np.isnan(interval(nothing, stats.mean, np.random.default_rng(0)).value)


def test_one_run_a_task_has_no_interval():
    found = interval(np.array([[1.0, 2.0]]), stats.mean, np.random.default_rng(0))
    assert found.value == 1.5
    assert np.isnan(found.low)


def test_percentiles_are_of_both_tails():
    np.testing.assert_allclose(percentiles(np.arange(1001.0)), [25.0, 975.0])


def test_two_runs_of_a_task_have_no_interval(rng):
    two, three = np.array([[1.0], [2.0]]), np.array([[1.0], [2.0], [3.0]])
    assert np.isnan(stats.interval(two, stats.mean, rng)[1:]).all()
    assert np.isfinite(stats.interval(three, stats.mean, rng)[1:]).all()
