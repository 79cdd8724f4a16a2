"""The paper's claims on runs whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headrace.analysis.artefacts import pairs_table
from headrace.analysis.claims import (
    CLAIMS,
    FAILS,
    HOLDS,
    LEVEL,
    UNKNOWN,
    Bounded,
    claims_table,
    cosine_matrix,
    difference,
    has_claims,
    is_above,
    is_between,
    judge,
)
from headrace.analysis.paper import UNITS, table
from headrace.analysis.records import find_runs
from headrace.analysis.scores import groups
from headrace.analysis.stats import Interval
from headrace.training.run import make_run
from tests.analysis.synthetic import MINATAR, write_run

SCORES = [claim.text for claim in CLAIMS[:7]]
DQN, MENDED = (next(text for text in SCORES if word in text) for word in ("dqn+spr", "at or above"))
COSINES = [claim.text for claim in CLAIMS[-2:]]


def paper_runs(folder, seeds=5, turned=False, spread=0.02):
    """Runs that score as the paper's do, or in the opposite order."""
    for row in table("scores"):
        if row["suite"] != "minatar":
            continue
        for seed in range(seeds):
            mean = float(row["mean"]) if not turned else 200 - float(row["mean"])
            run = make_run(row["agent"], row["env"], seed=seed, steps=5e6, engine="reference")
            write_run(folder, run, mean * (1 + spread * (seed - 2)))
    (group,) = groups(find_runs(folder).records)
    return group


def verdicts(group, rng):
    return {j.claim: j for j in judge(group, rng)}


def test_on_the_papers_own_scores_its_claims_hold(tmp_path, rng):
    found = verdicts(paper_runs(tmp_path), rng)
    assert {found[claim].verdict for claim in SCORES} == {HOLDS}
    first = found[SCORES[0]]
    assert first.found.value == pytest.approx(first.paper, rel=1e-6)
    assert "the paper's tables give 0.10" in first.sentence
    assert {found[claim].verdict for claim in COSINES} == {HOLDS}


def test_on_the_opposite_they_do_not(tmp_path, rng):
    found = verdicts(paper_runs(tmp_path, turned=True, spread=0.001), rng)
    assert {found[claim].verdict for claim in SCORES if claim != MENDED} == {FAILS}
    assert found[MENDED].found.high < 0
    assert found[MENDED].verdict == HOLDS  # "at or above": below, by less than the margin


def two_agents(folder, worse, better, base, scores, envs=MINATAR):
    """Seed s of `better` scores scores[s], that of `worse` base[s], times the paper's best of the environment."""
    for env in envs:
        for agent, shares in ((worse, base), (better, scores)):
            for seed, share in enumerate(shares):
                run = make_run(agent, env, seed=seed, steps=5e6, engine="reference")
                write_run(folder, run, share / UNITS["best"].convert(env, 1.0))
    (group,) = groups(find_runs(folder).records)
    return group


def test_an_interval_that_is_not_clear_of_the_margin_decides_nothing(tmp_path, rng):
    """About 3% below on average: surely below the base, but neither surely within 5% of it nor surely further off."""
    group = two_agents(tmp_path, "strq", "strq+spr+orth2", [1.0, 1.0, 1.0], [0.93, 0.935, 1.045])
    found = verdicts(group, rng)[MENDED]
    assert found.found.low < -0.05 < found.found.high
    assert found.verdict == UNKNOWN
    assert "against -0.05, 5% below" in found.sentence


@pytest.mark.parametrize(
    ("score", "verdict"), [(1.02, HOLDS), (0.98, HOLDS), (0.97, HOLDS), (0.93, FAILS), (0.5, FAILS)]
)
def test_at_or_above_is_within_the_margin(tmp_path, rng, score, verdict):
    scores = [score - 0.005, score, score + 0.005]
    group = two_agents(tmp_path, "strq", "strq+spr+orth2", [0.998, 1.0, 1.002], scores)
    assert verdicts(group, rng)[MENDED].verdict == verdict


def test_an_interval_alone_decides_nothing(tmp_path, rng):
    """Three seeds against three of one game, none overlapping: two of the 20 ways to deal them are as far apart."""
    group = two_agents(tmp_path, "dqn", "dqn+spr", [0.7, 0.8, 0.9], [0.1, 0.2, 0.3], MINATAR[:1])
    found = verdicts(group, rng)[DQN]
    assert found.found.high < 0
    assert found.p == pytest.approx(0.1, abs=0.02)
    assert found.verdict == UNKNOWN
    assert f"p = {found.p:.2g} (" in found.sentence


def test_a_claim_is_not_at_odds_with_the_pairs_beside_it(tmp_path, rng):
    group = two_agents(tmp_path, "dqn", "dqn+spr", [0.5, 0.9, 1.0], [0.4, 0.7, 0.8], MINATAR[:2])
    found = verdicts(group, rng)[DQN]
    (pair,) = pairs_table(group, rng).data
    assert found.p == pytest.approx(pair["p"], abs=0.03)
    assert (found.verdict == UNKNOWN) == (pair["p"] >= LEVEL)


def test_a_test_alone_decides_nothing_either():
    one = Bounded(Interval(0.5, -0.1, 1.1), 0.0, 0.001)
    assert is_above(one) == UNKNOWN
    assert is_above(one._replace(found=Interval(0.5, 0.1, 1.1))) == HOLDS
    assert is_above(one._replace(found=Interval(-0.5, -1.1, -0.1))) == FAILS
    assert is_above(one._replace(found=Interval(-0.5, math.nan, math.nan))) == UNKNOWN


def test_a_number_between_bounds_is_tested_against_both():
    low, high = (Bounded(Interval(0.0, -0.05, 0.05), bound, 0.01) for bound in (-0.1, 0.1))
    assert is_between(low, high) == HOLDS
    assert is_between(low._replace(p=0.2), high) == UNKNOWN
    assert is_between(low, high._replace(p=0.2)) == UNKNOWN
    above = Interval(0.3, 0.2, 0.4)
    assert is_between(low._replace(found=above), high._replace(found=above)) == FAILS


class Counted(np.random.Generator):
    """Counts the numbers that are drawn."""

    drawn = 0

    def random(self, size, *more):
        self.drawn += int(np.prod(size))
        return super().random(size, *more)


def test_many_runs_are_judged_soon(rng):
    """Twice as many runs as the paper's largest table has: work of a second or two on a quiet core, in proportion to
    the runs."""
    x, y = rng.normal(0, 1, (2, 10, 57))
    counts = []
    for part in (x[:, :19], x):
        counting = Counted(np.random.PCG64(0))
        difference(part, y[:, : part.shape[1]], 0.0, counting)
        counts.append(counting.drawn)
    assert counts[1] == 3 * counts[0]
    assert counts[1] <= 10_000 * (x.size + y.size)


def test_with_two_seeds_nothing_is_claimed(tmp_path, rng):
    found = verdicts(paper_runs(tmp_path, seeds=2), rng)
    assert {judgement.verdict for judgement in found.values()} == {UNKNOWN}
    assert "fewer than 3 finished runs in 5 of 5 environments" in found[SCORES[0]].sentence


def test_with_seeds_that_differ_more_than_agents_nothing_is_claimed(tmp_path, rng):
    found = verdicts(paper_runs(tmp_path, spread=0.45), rng)
    assert found[SCORES[0]].verdict == UNKNOWN
    assert found[SCORES[0]].found.low < 0 < found[SCORES[0]].found.high


def test_an_agent_that_was_never_run_is_named(tmp_path, rng):
    write_run(tmp_path, make_run("qrc", MINATAR[0], steps=5e6, engine="reference"), 1.0)
    (group,) = groups(find_runs(tmp_path).records)
    found = verdicts(group, rng)
    assert found[SCORES[0]].sentence == "There are no finished runs of qrc+spr."
    assert math.isnan(found[SCORES[0]].found.value)


def test_diverged_runs_are_said_to_flatter(tmp_path, rng):
    paper_runs(tmp_path)
    run = make_run("qrc", MINATAR[0], seed=5, steps=5e6, engine="reference")
    write_run(tmp_path, run, 1.0, status="diverged", share=0.1)
    (group,) = groups(find_runs(tmp_path).records)
    assert "1 run that diverged is left out" in verdicts(group, rng)[SCORES[0]].sentence


def test_the_wrong_sign_of_a_cosine_is_found(tmp_path, rng):
    for env in MINATAR:
        for seed in range(3):
            run = make_run("strq+spr", env, seed=seed, steps=5e6, engine="reference")
            write_run(tmp_path, run, 1.0, columns={"cosine_before_orth": 0.3 + 0.01 * seed})
    (group,) = groups(find_runs(tmp_path).records)
    assert cosine_matrix(group, "strq+spr").mean() == pytest.approx(0.31)
    found = verdicts(group, rng)[COSINES[1]]
    assert found.verdict == FAILS
    assert " against 0 (" in found.sentence, "the nearer of -1 and 0"


def test_every_claim_has_a_row(tmp_path, rng):
    write_run(tmp_path, make_run("qrc", MINATAR[0], steps=1e6, engine="reference"), 1.0)
    (group,) = groups(find_runs(tmp_path).records)
    made = claims_table(judge(group, rng))
    assert len(made.rows) == len(made.data) == len(CLAIMS)


def test_claims_are_made_of_the_papers_suites_and_lengths_alone(tmp_path):
    for steps in (1e6, 5e6):
        write_run(tmp_path, make_run("qrc", "minatar/breakout", steps=steps), 1.0)
    write_run(tmp_path, make_run("qrc", "minatar/breakout", steps=5e6, settings=("env.sticky=0",)), 1.0)
    write_run(tmp_path, make_run("qrc", "probe/delayed", steps=5e6), 1.0)
    found = groups(find_runs(tmp_path).records)
    assert [group.title for group in found if has_claims(group)] == ["minatar, 5M steps"]
