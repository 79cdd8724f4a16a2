"""Scores by suite and budget; what is missing stays missing and is named."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.analysis.curves import env_curves, grid, mean_curve, suite_curves
from headrace.analysis.paper import UNITS
from headrace.analysis.records import find_runs
from headrace.analysis.scores import Gap, agent_order, groups
from headrace.training.run import make_run
from tests.analysis.synthetic import MINATAR, store, write_run


def one(agent="qrc", env="minatar/breakout", **words):
    return make_run(agent, env, **{"steps": 1e6, "engine": "reference", **words})


def group_of(folder):
    (found,) = groups(find_runs(folder).records)
    return found


def test_the_matrix_is_seeds_by_environments(tmp_path):
    for seed, env, final in [(0, "asterix", 1.0), (0, "breakout", 2.0), (1, "asterix", 3.0), (1, "breakout", 4.0)]:
        write_run(tmp_path, one(env=f"minatar/{env}", seed=seed), final)
    group = group_of(tmp_path)
    assert (group.envs, group.seeds) == (["minatar/asterix", "minatar/breakout"], [0, 1])
    np.testing.assert_allclose(group.matrix("qrc"), [[1, 2], [3, 4]])
    np.testing.assert_allclose(group.matrix("qrc", UNITS["best"])[0, 0], 1.0 / 37.21)


def test_a_missing_seed_is_reported_and_never_filled_in(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path, one(seed=seed), 1.0)
    write_run(tmp_path, one("dqn", seed=0), 2.0)
    write_run(tmp_path, one("dqn", seed=1), 9.0, status="diverged", share=0.5)
    group = group_of(tmp_path)
    matrix = group.matrix("dqn")[:, 0]
    assert matrix[0] == 2.0
    assert np.isnan(matrix[1:]).all()
    assert group.gaps("qrc") == []
    where = "minatar/breakout"
    assert group.gaps("dqn") == [Gap("dqn", where, 1, "diverged"), Gap("dqn", where, 2, "missing")]


def test_suites_and_budgets_are_kept_apart(tmp_path):
    write_run(tmp_path, one(), 1.0)
    write_run(tmp_path, one(steps=5e6), 2.0)
    write_run(tmp_path, one(settings=("env.sticky=0",)), 3.0)
    found = groups(find_runs(tmp_path).records)
    assert [(g.suite, g.steps, g.matrix("qrc")[0, 0]) for g in found] == [
        ("minatar", 1_000_000, 1.0),
        ("minatar", 5_000_000, 2.0),
        ("minatar sticky=0.0", 1_000_000, 3.0),
    ]


def titles(*agents, out):
    """Of the groups that finished runs of these agents make, with the names that they have there."""
    for agent in agents:
        write_run(out, one(agent), 1.0)
    return {g.title: g.agents for g in groups(find_runs(out).records)}


def test_agents_without_their_guards_are_a_group_of_their_own(tmp_path):
    found = titles("qrc", "qrc+spr+unguarded", "qrc+unguarded", "strq", out=tmp_path)
    assert found == {
        "minatar, 1M steps": ["strq", "qrc"],
        "minatar, 1M steps, unguarded": ["strq", "qrc", "qrc+spr"],
    }


def test_an_agent_that_has_no_guard_makes_no_group_of_guarded_ones(tmp_path):
    assert titles("qrc+unguarded", "strq", out=tmp_path / "bare") == {"minatar, 1M steps, unguarded": ["strq", "qrc"]}
    assert titles("strq", out=tmp_path / "neither") == {"minatar, 1M steps": ["strq"]}


def test_every_run_is_found_with_its_state_and_the_points_of_its_score(tmp_path):
    write_run(tmp_path, one(), 1.0)
    write_run(tmp_path, one(seed=1), 1.0, status="interrupted", share=0.1, rows=200)
    found = find_runs(tmp_path).records
    assert [(r.seed, r.state, r.score.points) for r in found] == [(0, "finished", 50), (1, "interrupted", 20)]


def test_variants_come_in_the_papers_order():
    assert sorted(["qrc", "zzz", "qrc td.lr=1.0", "dqn", "strq"], key=agent_order) == [
        "dqn", "strq", "qrc", "qrc td.lr=1.0", "zzz",
    ]  # fmt: skip


def test_a_curve_is_the_mean_over_seeds_with_an_interval_around_it(tmp_path, rng):
    for seed, final in enumerate((2.0, 4.0, 6.0)):
        write_run(tmp_path, one(seed=seed), final)
    curve = env_curves(group_of(tmp_path), "return", rng)["minatar/breakout"]["qrc"]
    assert curve.runs == 3
    assert curve.mean[-1] == pytest.approx(4.0)
    assert curve.mean[len(curve.steps) // 2 - 1] == pytest.approx(4.0 * 0.5 / 0.75)
    assert 2.0 <= curve.low[-1] < 4.0 < curve.high[-1] <= 6.0


def test_where_a_run_ends_early_its_curve_goes_on_as_the_mean_of_the_others(tmp_path, rng):
    for seed, final in enumerate((1.0, 3.0)):
        write_run(tmp_path, one(seed=seed), final)
    write_run(tmp_path, one(seed=2), 8.0, status="interrupted", share=0.5)
    curve = env_curves(group_of(tmp_path), "return", rng)["minatar/breakout"]["qrc"]
    half = len(curve.steps) // 2
    assert curve.mean[half - 1] == pytest.approx(4.0 * 0.5 / 0.75)
    assert curve.mean[-1] == pytest.approx(2.0)
    assert np.isfinite(curve.low[half - 1])
    assert np.isnan(curve.low[half:]).all(), "two runs have no interval"
    assert (curve.runs, curve.short, curve.counted) == (3, 1, "3 runs, 1 of them ended early")


def test_a_curve_over_tasks_ends_where_one_of_them_has_no_run_left(rng):
    gone = np.array([[1.0, 1.0, np.nan, np.nan]])
    late = np.array([[np.nan, 3.0, 3.0, 3.0], [5.0, 5.0, 5.0, np.nan]])
    assert np.array_equal(mean_curve(grid(4, 4), [gone, late], rng).mean, [np.nan, 2.5, np.nan, np.nan], equal_nan=True)


def test_agents_without_some_environment_have_no_suite_curve(tmp_path, rng):
    store(tmp_path, agents=("qrc",), seeds=(0, 1), steps=1e6)
    write_run(tmp_path, one("dqn", MINATAR[0]), 1.0)
    assert list(suite_curves(group_of(tmp_path), "return", rng)) == ["qrc"]


def test_the_interval_of_a_curve_is_the_bootstraps(rng):
    """Against resampling by hand: means of two tasks, each drawn from its own runs."""
    tasks = [rng.normal(0, 1, (4, 1)), rng.normal(5, 2, (6, 1))]
    curve = mean_curve(grid(10, 1), tasks, rng)
    drawn = [np.mean([t[rng.integers(0, len(t), len(t)), 0].mean() for t in tasks]) for _ in range(20_000)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert curve.low[0] == pytest.approx(low, abs=0.1)
    assert curve.high[0] == pytest.approx(high, abs=0.1)
