"""The watch on silent failure, on rows made by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.runs.folder import RunFolder
from headrace.training import health
from headrace.training.health import SYMPTOMS, Watch, mean_cosine
from headrace.training.single import train
from tests.small_runs import SETTINGS, WAYS, StopAt

WELL = {
    "q": 1.0, "td_error": 0.1, "overshoot": 0.5, "guarded": 0.0, "sight": 0.8, "latent_spread": 0.5, "dead_units": 0.3,
    "aux_loss": -4.0, "aux_guarded": 0.0,
}  # fmt: skip
BLIND = {"sight": 4e-5, "latent_spread": 1e-9}


def row(number, **changes):
    return {"step": 1000 * number, "return": math.nan, **WELL, **changes}


def told(agent, *rows):
    """What the watch says of rows that follow each other: (number of the row, kind, sentence)."""
    watch = Watch(agent_named(agent))
    return [(i, f.kind, f.sentence) for i, r in enumerate(rows, start=1) for f in watch.see(row(i, **r))]


def test_a_healthy_run_is_left_alone():
    assert told("qrc+spr+orth", *[{}] * 20) == []


def test_a_blind_agent_is_found_at_the_third_log_point_and_told_once():
    ((at, kind, sentence),) = told("qrc+unguarded", {}, *[BLIND] * 9)
    assert (at, kind) == (4, "blind")
    assert sentence == (
        "blind since step 2,000: between states Q varies by 0.004% of its spread over actions; "
        "train with the guard: --set 'td.guard=Clip(100)'"
    )


def test_what_comes_and_goes_is_no_finding():
    assert told("qrc", *[BLIND, BLIND, {}] * 9) == []


def test_a_point_that_says_nothing_neither_counts_nor_interrupts():
    nothing = dict.fromkeys(BLIND, math.nan)
    ((at, _, sentence),) = told("qrc", BLIND, nothing, BLIND, nothing, BLIND)
    assert at == 5
    assert "since step 1,000" in sentence


def test_an_agent_whose_latents_differ_is_not_blind_for_a_calm_q():
    assert told("qrc", *[{"sight": 1e-3}] * 9) == []


@pytest.mark.parametrize(
    ("agent", "kind", "rows", "words"),
    [
        ("qrc+spr", "collapsed", [{"aux_loss": -4.99, "latent_spread": 1e-6}] * 3, "mean cosine 0.9980"),
        ("qrc", "overshooting", [{"overshoot": 6.0}] * 5, "6 times as far"),
        ("qrc", "diverging", [{"q": -31.0 - i} for i in range(10)], "td.lr=3e-05"),
        ("strq", "diverging", [{"td_error": 11.0 + i} for i in range(10)], "td.kappa=4"),
        ("qrc", "dead units", [{"dead_units": 0.95}] * 5, "95% of the units"),
        ("qrc", "guarded", [{"guarded": 0.5}] * 5, "50% of the steps"),
        ("qrc+spr", "auxiliary guarded", [{"aux_guarded": 0.25}] * 5, "aux.weight=0.2"),
    ],
)
def test_each_symptom_is_found_when_it_has_held_for_long_enough_and_not_before(agent, kind, rows, words):
    assert told(agent, *rows[:-1]) == []
    ((at, found, sentence),) = told(agent, *rows)
    assert (at, found) == (len(rows), kind)
    assert words in sentence


def test_values_that_are_large_and_shrink_do_not_diverge():
    assert told("qrc", *[{"q": 60.0 - i} for i in range(30)]) == []


def old(rows):
    """Rows without columns of sight."""
    return [{k: v for k, v in r.items() if k not in ("sight", "latent_spread", "dead_units")} for r in rows]


def test_rows_without_sight_are_judged_by_spr_s_cosine_from_the_start_on():
    agent = agent_named("qrc+spr+orth+unguarded")
    watch, late = Watch(agent), Watch(agent)
    ((finding),) = [f for r in old(row(i, aux_loss=-4.93) for i in range(1, 9)) for f in watch.see(r)]
    assert finding.kind == "collapsed"
    assert finding.sentence.count("--set") == 2
    rows = old([row(1, aux_loss=-4.8), *(row(i, aux_loss=-4.99) for i in range(2, 30))])
    assert [f for r in rows for f in late.see(r)] == []
    assert watch.not_judged == ["blind", "dead units"]


def test_the_cosine_is_the_mean_over_the_horizon():
    spr = agent_named("qrc+spr")
    assert mean_cosine(spr, {"aux_loss": -4.0}) == pytest.approx(0.8)
    assert mean_cosine(tweak(spr, "aux.objective.horizon=10"), {"aux_loss": -4.0}) == pytest.approx(0.4)
    assert mean_cosine(agent_named("qrc+spr+mean"), {"aux_loss": -0.7}) == pytest.approx(0.7)
    assert math.isnan(mean_cosine(agent_named("qrc"), {}))
    assert math.isnan(mean_cosine(agent_named("qrc+curl"), {"aux_loss": 1.0}))


def test_what_earlier_rows_showed_has_been_told():
    rows = [row(i, **BLIND) for i in range(1, 4)]
    columns = {name: np.array([r[name] for r in rows]) for name in rows[0]}
    resumed = Watch(agent_named("qrc"), columns)
    assert resumed.see(row(4, **BLIND)) == []
    early = Watch(agent_named("qrc"), {name: values[:2] for name, values in columns.items()})
    assert [finding.step for finding in early.see(row(3, **BLIND))] == [1000]


def test_every_symptom_says_what_it_is_and_where_its_limit_comes_from():
    assert all(s.rule and s.source and s.points >= 3 for s in SYMPTOMS)


def test_training_says_a_finding_once_also_after_a_resume(tmp_path, monkeypatch):
    """With limits that every agent is below."""
    monkeypatch.setattr(health, "SIGHT", math.inf)
    monkeypatch.setattr(health, "LATENT_SPREAD", math.inf)
    heard = [StopAt(4500), StopAt(10**9)]
    for progress in heard:
        done = train("dqn", "minatar/breakout", steps=8000, settings=SETTINGS[:1], out=tmp_path, progress=progress,
                     **WAYS["learner"])  # fmt: skip
    said = [notice for progress in heard for notice in progress.notices]
    assert [notice.partition(":")[0] for notice in said] == ["blind since step 1,000", said[1]]
    assert "continuing" in said[1]
    assert done.status == "finished"
    assert all(a < b for a, b in pairwise(RunFolder.read(done.path).metrics()["step"]))
