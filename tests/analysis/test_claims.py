"""The paper's claims on runs whose answer is known."""

from __future__ import annotations

import math

import pytest

from headrace.analysis.claims import CLAIMS, FAILS, HOLDS, UNKNOWN, claims_table, cosine_matrix, judge
from headrace.analysis.paper import table
from headrace.analysis.records import find_runs
from headrace.analysis.scores import groups
from headrace.run import make_run
from tests.analysis.synthetic import MINATAR, write_run

SCORES = [claim.text for claim in CLAIMS[:6]]
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
    assert {found[claim].verdict for claim in SCORES[:5]} == {FAILS}
    assert found[SCORES[5]].found.high < 0
    assert found[SCORES[5]].verdict == HOLDS  # "at or above": below, by less than the margin


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
    assert verdicts(group, rng)[COSINES[1]].verdict == FAILS


def test_every_claim_has_a_row(tmp_path, rng):
    write_run(tmp_path, make_run("qrc", MINATAR[0], steps=1e6, engine="reference"), 1.0)
    (group,) = groups(find_runs(tmp_path).records)
    made = claims_table(judge(group, rng))
    assert len(made.rows) == len(made.data) == len(CLAIMS)
