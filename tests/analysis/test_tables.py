"""Tables: numbers beside the paper's, and the same in three forms."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from headrace.analysis.ablations import ablation_table, known, present
from headrace.analysis.artefacts import shown_run, tables
from headrace.analysis.cost import cost_of, cost_table
from headrace.analysis.paper import UNITS, Value
from headrace.analysis.ranks import analyses, probe_table, rank_table
from headrace.analysis.records import find_runs
from headrace.analysis.score_tables import compared, coverage_table, formula_table, interval_table, scores_table
from headrace.analysis.scores import groups
from headrace.analysis.table import Cell, Table, between, latex_text, number, signed, spread
from headrace.training.run import make_run
from tests.analysis.synthetic import MINATAR, store, write_run

STEPS = 5e6


def one(agent="qrc", env="minatar/breakout", steps=STEPS, **words):
    return make_run(agent, env, steps=steps, engine="reference", **words)


def rows_of(table):
    return list(csv.DictReader(io.StringIO(table.csv())))


def test_numbers_are_short():
    assert [number(x) for x in (0.123, 37.214, 123.46, 1256.9, float("nan"))] == [
        "0.12", "37.21", "123.5", "1,257", "\N{EN DASH}",
    ]  # fmt: skip
    assert spread(1256.94, 296.5) == "1,257 ± 296"
    assert (signed(1.5), signed(-1.5)) == ("+1.50", "-1.50")
    assert (number(-0.001), signed(-0.001), signed(0.001)) == ("0.00", "0.00", "0.00")
    assert between(1.0, 0.5, 2.0) == "1.00 [0.50, 2.00]"


def test_ours_differ_from_the_papers_where_chance_would_not_make_them():
    """Mean 10, standard error sqrt(1/4 + 1/4) = 0.71 against the paper's 10 +- 1."""
    ours = np.array([9.0, 11.0, 10.0, 10.0]) * 1.0
    assert compared(ours, Value(10.0, 1.0)) == ("same", 0.0)
    assert compared(ours + 3, Value(10.0, 1.0)) == ("above", 3.0)
    assert compared(ours - 3, Value(10.0, 1.0)) == ("below", -3.0)
    assert compared(np.array([20.0]), Value(10.0, 1.0)) == ("", 10.0)
    assert compared(np.array([np.nan]), Value(10.0, 1.0))[0] == ""
    assert compared(ours, None)[0] == ""
    two = np.array([10.0, 12.0])  # mean 11 with the error 1; the paper's, sqrt(4 / 4): within 2 sqrt(2) + 0.005
    assert [compared(two, Value(11 - d, 2.0))[0] for d in (2.83, 2.84)] == ["same", "above"]
    assert compared(np.array([0.004, 0.004]), Value(0.0, 0.0))[0] == "same", "the paper rounds to two decimals"


def test_scores_stand_beside_the_papers(group):
    table = scores_table(group)
    cell = table.rows[0][1 + group.agents.index("qrc")]
    assert cell.paper == "28.73 ± 8.72"
    assert cell.mark == "below"
    (row,) = (r for r in rows_of(table) if (r["env"], r["agent"]) == ("minatar/asterix", "qrc"))
    assert float(row["difference"]) == pytest.approx(float(row["mean"]) - 28.73)
    assert row["runs"] == "5"


def test_the_spread_is_that_of_a_population(tmp_path):
    for seed, final in enumerate((1.0, 3.0)):
        write_run(tmp_path, one(seed=seed), final)
    (group,) = groups(find_runs(tmp_path).records)
    table = scores_table(group)
    assert table.rows[0][1].text == "2.00 ± 1.00"
    assert float(rows_of(table)[0]["std"]) == 1.0


def test_the_papers_numbers_are_not_put_beside_another_unit_or_budget(group, tmp_path):
    assert not any(cell.paper for row in scores_table(group, UNITS["best"]).rows for cell in row)
    store(tmp_path, agents=("qrc",), seeds=(0,), steps=1e6)
    (other,) = groups(find_runs(tmp_path).records)
    assert not any(cell.paper for row in scores_table(other).rows for cell in row)


def test_missing_runs_are_counted_in_their_cell_and_named_below(tmp_path):
    for seed in range(3):
        write_run(tmp_path, one(seed=seed), 5.0)
    write_run(tmp_path, one("dqn", seed=1), 5.0)
    write_run(tmp_path, one("dqn", seed=2), 5.0, status="failed", share=0.2)
    (group,) = groups(find_runs(tmp_path).records)
    table = scores_table(group)
    assert table.rows[0][1].text == "5.00 (1/3)"
    assert "dqn on minatar/breakout seed 0 (missing); dqn on minatar/breakout seed 2 (failed)" in table.notes[1]
    counts = {row["agent"]: row for row in rows_of(coverage_table(group))}
    assert (counts["dqn"]["finished"], counts["dqn"]["failed"], counts["dqn"]["missing"]) == ("1", "1", "1")


def test_many_missing_runs_are_counted(tmp_path):
    store(tmp_path, agents=("qrc",), seeds=range(5))
    write_run(tmp_path, one("dqn"), 5.0)
    (group,) = groups(find_runs(tmp_path).records)
    assert "dqn 24 missing" in scores_table(group).notes[1]


def test_the_papers_formula_is_applied_to_runs(group):
    rows = {(r["agent"], r["metric"]): r for r in rows_of(formula_table([group]))}
    means = group.matrix("qrc").mean(axis=0)
    assert float(rows["qrc", "mean"]["mean"]) == pytest.approx(means.mean())
    assert float(rows["qrc", "mean"]["std"]) == pytest.approx(means.std())
    assert float(rows["qrc", "mean"]["paper_mean"]) == 42.5


def test_an_aggregate_over_some_environments_is_not_compared_with_one_over_all(tmp_path):
    store(tmp_path, agents=("qrc",), envs=MINATAR[:3])
    (group,) = groups(find_runs(tmp_path).records)
    assert not any(cell.paper for row in formula_table([group]).rows for cell in row)


def test_an_aggregate_over_as_many_other_environments_is_not_compared_either(tmp_path):
    """As many games as the paper has, of which one is not the paper's."""
    store(tmp_path, agents=("qrc",), seeds=(0, 1))
    (group,) = groups(find_runs(tmp_path).records)
    assert any(cell.paper for row in formula_table([group]).rows for cell in row)
    renamed = [replace(r, env=r.env.replace("breakout", "pong")) for r in group.records]
    (other,) = groups(renamed)
    assert len(other.envs) == len(other.paper().envs)
    made = formula_table([other])
    assert not any(cell.paper for row in made.rows for cell in row)
    assert np.isnan(made.data[0]["paper_mean"])


def test_intervals_contain_their_number(group, rng):
    for row in rows_of(interval_table([group], rng)):
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"])


HOSTILE = Table(
    "hostile",
    "<script>alert(1)</script> 50% & $x_1$ | {a}",
    ["a|b", "<b>"],
    [[Cell("x_1 & y"), Cell("1.0 ± 0.1", "2.0 ± 0.2", "-1.0", "below")]],
    [{"name": 'he said "1,2"', "value": 0.1}, {"name": "nan", "value": float("nan"), "more": 3}],
    ["a note with \\ and # and ~"],
)


def test_no_form_lets_a_name_become_markup():
    text = HOSTILE.markdown()
    assert "<script>" not in text
    assert "a\\|b" in text
    assert HOSTILE.latex().count("&") == 2 + 1 + 1  # two rows of two columns, and the escaped ones
    assert r"50\% \& \$x\_1\$" in HOSTILE.latex()
    assert latex_text("\\a^b") == r"\textbackslash{}a\textasciicircum{}b"


def test_csv_keeps_every_digit_and_leaves_what_is_not_known_empty():
    rows = rows_of(HOSTILE)
    assert rows[0] == {"name": 'he said "1,2"', "value": "0.1", "more": ""}
    assert rows[1] == {"name": "nan", "value": "", "more": "3"}


def test_every_table_is_written_in_three_forms(group, rng, tmp_path):
    names = [table.name for table in tables([group], rng) if table.write(tmp_path)]
    assert {"scores_minatar_5M_score", "aggregate_paper_formula", "aggregate_intervals", "claims", "cost"} <= set(names)
    assert {p.name for p in tmp_path.iterdir()} == {f"{n}.{kind}" for n in names for kind in ("csv", "md", "tex")}


def test_tables_of_nothing_are_none(rng):
    assert list(tables([], rng)) == []


def test_every_known_ablation_has_its_usual_agent_among_those_that_have_a_name():
    for ablation in known():
        assert {agent for _, agent in ablation.agents} & {"qrc+spr", "qrc+spr+orth", "dqn", "qrc"}, ablation


def test_ablations_are_found_among_runs(tmp_path, rng):
    for agent, settings in [("qrc+spr", ()), ("qrc+spr", ("aux.objective.horizon=3",)), ("qrc", ("td.lr=0.0005",))]:
        for seed in (0, 1):
            write_run(tmp_path, one(agent, seed=seed, settings=settings), 4.0)
    (group,) = groups(find_runs(tmp_path).records)
    assert [(a.name, [v for v, _ in a.agents]) for a in present(group)] == [
        ("horizon", ["3", "5"]),
        ("settings_of_qrc", ["td.lr=0.0005"]),
    ]
    rows = rows_of(ablation_table([group], rng))
    assert {row["agent"] for row in rows} == {"qrc+spr", "qrc+spr aux.objective.horizon=3", "qrc td.lr=0.0005"}


def test_returns_have_no_optimality_gap(tmp_path, rng):
    for seed in (0, 1):
        write_run(tmp_path, one(env="gym/CartPole-v1", seed=seed), 400.0)
    table = interval_table(groups(find_runs(tmp_path).records), rng)
    assert {row["metric"] for row in rows_of(table)} == {"mean", "median", "iqm"}
    assert table.rows[0][-1].text == "\N{EN DASH}"


def atari_runs(out):
    """Two agents of the paper and one of its ablations on two games, 40M frames, with what the paper measured there."""
    details = {"seconds": 7200.0, "parameters": 1_680_000, "peak_memory_mb": 900.0}
    for agent, settings in [("dqn", ()), ("dqn+replay5", ()), ("qrc+spr", ()), ("qrc+spr", ("aux.weight=1.0",))]:
        for env in ("atari/pong", "atari/breakout"):
            for seed in (0, 1):
                path = write_run(out, one(agent, env, 1e7, seed=seed, settings=settings), 10.0, details=details)
                if agent == "dqn":
                    (path / "latents.json").write_text(json.dumps(latents_at(10_000_000, 500.0 + seed)))
    (found,) = groups(find_runs(out).records)
    return found


def latents_at(step, rank):
    at = {"step": step, "effective_rank": rank, "effective_rank_centred": rank, "features": 3136, "norms": {}}
    steps = [{**at, "silence": {"encoder": {"dead": 0.0, "dormant": 0.0}}, "probes": {}}]
    return {"format": 1, "env": "", "policy": "", "observations": 5000, "perplexities": [], "steps": steps}


def test_cost_rank_and_ablations_stand_beside_the_papers_on_atari(tmp_path, rng):
    group = atari_runs(tmp_path)
    cost = {row[1].text: row for row in cost_table([group]).rows}["dqn"]
    assert [(c.text, c.paper, c.difference) for c in (cost[2], cost[5], cost[6])] == [
        ("2", "20.73 ± 1.21", "-18.73"), ("1,680,000", "1.68M", ""), ("0.90", "1.03 ± 0.02", ""),
    ]  # fmt: skip
    (rank,) = rank_table([group]).rows
    assert (rank[2].text, rank[2].paper, rank[2].difference) == ("500.5 ± 0.0", "518.7 ± 259.4", "-18.20")
    assert rank[2].mark == "", "the paper's spread is over environments: it does not say how sure its mean is"
    ablations = {(row[1].text, row[3].text): row[4] for row in ablation_table([group], rng).rows}
    assert ablations["Weight of SPR", "qrc+spr aux.weight=1.0"].paper == "1.09 ± 1.25"
    assert ablations["Memory of DQN", "dqn+replay5"].paper == "0.30 ± 0.51"


def test_variants_alone_are_no_ablation(tmp_path):
    for agent in ("dqn", "dqn+spr", "qrc", "qrc+spr"):
        write_run(tmp_path, one(agent), 4.0)
    assert present(groups(find_runs(tmp_path).records)[0]) == []


def test_cost_is_shared_by_the_streams_of_a_fleet(tmp_path):
    fleet = {"seconds": 7200.0, "streams": 4, "parameters": 1000, "peak_memory_mb": 500.0}
    write_run(tmp_path, one(), 1.0, details=fleet)
    record = find_runs(tmp_path).records[0]
    cost = cost_of([record])
    assert (cost.hours, cost.wall_hours, cost.streams) == (0.5, 2.0, 4.0)
    assert cost.steps_per_s == pytest.approx(5e6 / 7200)
    assert (cost.parameters, cost.memory_gb) == (1000, 0.5)
    assert "a made-up CPU, 4 cores" in " ".join(cost_table(groups([record])).notes)


def test_a_run_that_does_not_say_what_it_cost_is_no_error(tmp_path):
    path = write_run(tmp_path, one(), 1.0)
    facts = json.loads((path / "manifest.json").read_text())
    for name in ("seconds", "machine"):
        del facts[name]
    (path / "manifest.json").write_text(json.dumps(facts))
    cost = cost_of(find_runs(tmp_path).records)
    assert np.isnan(cost.hours)
    assert cost.machines == ("unknown",)


def test_a_rank_of_one_environment_has_no_spread(tmp_path):
    for seed in (0, 1):
        path = write_run(tmp_path, one("qrc", seed=seed), 1.0)
        (path / "latents.json").write_text(json.dumps(latents_at(5_000_000, 100.0 + 10 * seed)))
    made = rank_table(groups(find_runs(tmp_path).records))
    assert [made.rows[0][i].text for i in (2, 3)] == ["105.0", "105.0"]
    assert np.isnan(made.data[0]["effective_rank_std"])


def test_the_spread_of_both_ranks_is_over_environments(tmp_path):
    for e, env in enumerate(MINATAR[:2]):
        for seed in (0, 1):
            path = write_run(tmp_path, one("qrc", env, seed=seed), 1.0)
            (path / "latents.json").write_text(json.dumps(latents_at(5_000_000, 50.0 + 20 * e + seed)))
    (row,) = rank_table(groups(find_runs(tmp_path).records)).rows
    assert [row[i].text for i in (2, 3)] == ["60.50 ± 10.00", "60.50 ± 10.00"]


def analysed_on(folder, *trajectories, env=MINATAR[0]):
    """A finished run of qrc for each: its effective rank, and the trajectory it was found on."""
    for seed, (rank, observations, policy) in enumerate(trajectories):
        path = write_run(folder, one("qrc", env, seed=seed), 1.0)
        facts = {**latents_at(5_000_000, rank), "observations": observations, "policy": policy}
        (path / "latents.json").write_text(json.dumps(facts))
    (group,) = groups(find_runs(folder).records)
    return group


USUAL, OTHER = "uniformly random, seed 2026", "uniformly random, seed 7"


@pytest.mark.parametrize(
    ("trajectories", "mean", "passed_over"),
    [
        ([(100.0, 5000, USUAL), (10.0, 300, USUAL), (12.0, 300, USUAL)], 100.0, 2),  # the usual one, though rarer
        ([(100.0, 5000, USUAL), (10.0, 5000, OTHER)], 100.0, 1),  # the seed counts, too
        ([(100.0, 400, USUAL), (10.0, 300, USUAL), (12.0, 300, USUAL)], 11.0, 1),  # the commonest
        ([(100.0, 5000, USUAL), (110.0, 5000, USUAL)], 105.0, 0),
    ],
)
def test_ranks_on_different_trajectories_are_never_averaged(tmp_path, trajectories, mean, passed_over):
    group = analysed_on(tmp_path, *trajectories)
    made = rank_table([group])
    (row,) = made.data
    assert row["effective_rank"] == pytest.approx(mean)
    assert row["runs"] == len(trajectories) - passed_over
    said = [note for note in made.notes if "passed over" in note]
    assert len(said) == min(passed_over, 1)
    left_out = {r.name for r in group.records} - set(analyses(group).whole)
    assert len(left_out) == passed_over
    assert all(name in said[0] for name in left_out)


def test_one_trajectory_is_taken_for_all_environments(tmp_path):
    """Ranks depend on how many observations there are: means over environments must not mix them either."""
    analysed_on(tmp_path, (100.0, 5000, USUAL))
    group = analysed_on(tmp_path, (10.0, 300, USUAL), env=MINATAR[1])
    (row,) = rank_table([group]).data
    assert (row["effective_rank"], row["environments"]) == (100.0, 1)


def test_the_seed_that_has_been_analysed_is_shown(tmp_path):
    for seed in range(3):
        write_run(tmp_path, one("qrc", seed=seed), 1.0)
    (group,) = groups(find_runs(tmp_path).records)
    assert shown_run(group, "qrc", group.envs[0], analyses(group).kept) is None
    (group.records[2].path / "latents.json").write_text(json.dumps(latents_at(5_000_000, 1.0)))
    assert shown_run(group, "qrc", group.envs[0], analyses(group).kept) == group.records[2]
    (group.records[1].path / "latents.json").write_text(json.dumps(latents_at(2_000_000, 1.0)))
    assert shown_run(group, "qrc", group.envs[0], analyses(group).kept) == group.records[2]
    (group.records[0].path / "latents.json").write_text(json.dumps(latents_at(5_000_000, 1.0)))
    assert shown_run(group, "qrc", group.envs[0], analyses(group).kept) == group.records[0]


def test_without_an_analysis_there_are_no_ranks(group):
    assert rank_table([group]).rows == []
    assert probe_table([group]).rows == []
