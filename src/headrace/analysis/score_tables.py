"""The paper's tables of scores: per environment and aggregated, each number beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headrace.analysis.paper import (
    METRICS,
    UNITS,
    Unit,
    Value,
    aggregates,
    beside,
    even_unit,
    key,
    paper_cell,
    paper_unit,
    told,
)
from headrace.analysis.records import counted
from headrace.analysis.scores import Gap, Group
from headrace.analysis.stats import AGGREGATES, Comparison, Statistic, interval, task_means
from headrace.analysis.table import NOTHING, Cell, Table, between, spread

PAPER_SEEDS = 5
MANY_GAPS = 12  # more than this are counted, not listed

ROUNDING = 0.005  # the paper prints two decimals
METRIC_TITLES = {"mean": "mean", "median": "median", "iqm": "IQM", "optimality_gap": "optimality gap"}


def compared(ours: np.ndarray, theirs: Value | None) -> tuple[str, float]:
    """How the mean of our runs stands to the paper's: the mark of a `Cell`, and the difference.

    The mark is `above` or `below` where the difference exceeds twice its standard error, which takes the paper's std as
    that of five seeds, and what the paper's rounding hides. With fewer than two runs of our own there is a difference
    but no mark.
    """
    known = ours[np.isfinite(ours)]
    if theirs is None or not len(known):
        return "", math.nan
    difference = float(known.mean()) - theirs.mean
    if len(known) < 2:
        return "", difference
    error = math.sqrt(known.var(ddof=1) / len(known) + theirs.std**2 / (PAPER_SEEDS - 1))
    if abs(difference) <= 2 * error + ROUNDING:
        return "same", difference
    return ("above" if difference > 0 else "below"), difference


def scores_table(group: Group, unit: Unit | None = None) -> Table:
    """Environments x agents: mean ± population std over seeds, beside the paper's where the unit is the paper's."""
    unit = unit or paper_unit(group.suite)
    paper = group.paper() if unit == paper_unit(group.suite) else None
    rows, data = [], []
    matrices = group.matrices(unit)
    for j, env in enumerate(group.envs):
        cells = [Cell(env)]
        for agent in group.agents:
            ours = matrices[agent][:, j]
            theirs = paper.score(env, agent) if paper else None
            cells.append(_score_cell(ours, theirs, len(group.seeds)))
            data.append(_score_row(group, env, agent, ours, theirs))
        rows.append(cells)
    said = [f"Mean ± population standard deviation over seeds of the {unit.label}", *_notes(group)]
    title = f"Scores, {group.title} ({unit.label})"
    return Table(f"scores_{group.slug}_{unit.name}", title, ["environment", *group.agents], rows, data, said)


def _score_cell(ours: np.ndarray, theirs: Value | None, wanted: int) -> Cell:
    known = ours[np.isfinite(ours)]
    count = f" ({len(known)}/{wanted})" if len(known) < wanted else ""
    std = float(known.std()) if len(known) > 1 else math.nan
    text = spread(float(known.mean()), std) if len(known) else NOTHING
    return beside(text + count, theirs, float(known.mean()) if len(known) else math.nan, compared(ours, theirs)[0])


def _score_row(group: Group, env: str, agent: str, ours: np.ndarray, theirs: Value | None) -> dict[str, Any]:
    known = ours[np.isfinite(ours)]
    mark, difference = compared(ours, theirs)
    return {
        **group.columns, "env": env, "agent": agent,
        **told(Value(float(known.mean()), float(known.std())) if len(known) else None),
        "runs": len(known), "seeds": len(group.seeds), **told(theirs, "paper_"), "difference": difference, "mark": mark,
    }  # fmt: skip


def _notes(group: Group) -> list[str]:
    said = gap_notes([gap for agent in group.agents for gap in group.gaps(agent)])
    if group.young:
        said.append(f"{len(group.young)} finished runs have fewer than 50 log points: their scores are means of fewer")
    return said


def gap_notes(gaps: Sequence[Gap]) -> list[str]:
    """What is not in a table, in words: never filled in, always said."""
    if not gaps:
        return []
    if len(gaps) <= MANY_GAPS:
        listed = "; ".join(f"{g.agent} on {g.env} seed {g.seed} ({g.why})" for g in gaps)
        return [f"Without a finished run: {listed}"]
    counted: dict[tuple[str, str], int] = {}
    for gap in gaps:
        counted[gap.agent, gap.why] = counted.get((gap.agent, gap.why), 0) + 1
    listed = "; ".join(f"{agent} {count} {why}" for (agent, why), count in counted.items())
    return [f"Without a finished run: {listed}"]


def formula_table(groups: Iterable[Group]) -> Table:
    """The paper's own aggregates (its formula, not Agarwal et al.'s), beside the paper's."""
    rows, data, notes = [], [], []
    for group in groups:
        unit, paper = paper_unit(group.suite), group.paper()
        for agent in group.agents:
            means = task_means(group.matrix(agent, unit))
            known = means[np.isfinite(means)]
            found = aggregates(known)
            if len(known) < len(group.envs):
                notes.append(
                    f"{agent}, {group.title}: {len(known)} of {len(group.envs)} environments have a finished run"
                )
            same_envs = {key(group.envs[j]) for j in np.flatnonzero(np.isfinite(means))} == set(paper.envs)
            theirs = {metric: paper.aggregates.get((agent, metric)) if same_envs else None for metric in METRICS}
            cells = [paper_cell(found.get(m), theirs[m]) for m in METRICS]
            rows.append([Cell(group.title), Cell(agent), *cells])
            data += [_formula_row(group, agent, m, found.get(m), theirs[m], len(known)) for m in METRICS]
    said = ["Means over environments of the means over seeds; ± is the population standard deviation over environments"]
    header = ["suite", "agent", *(METRIC_TITLES[metric] for metric in METRICS)]
    title = "Aggregates by the paper's formula (Atari human-normalised, other suites returns)"
    return Table("aggregate_paper_formula", title, header, rows, data, said + notes)


def _formula_row(
    group: Group, agent: str, metric: str, ours: Value | None, theirs: Value | None, envs: int
) -> dict[str, Any]:
    difference = ours.mean - theirs.mean if ours and theirs else math.nan
    place = {**group.columns, "agent": agent, "metric": metric}
    return {**place, **told(ours), "environments": envs, **told(theirs, "paper_"), "difference": difference}


def metrics_in(unit: Unit) -> dict[str, Statistic]:
    """The aggregates that mean something in a unit: raw returns have no optimum at 1 to fall short of."""
    return {name: of for name, of in AGGREGATES.items() if name != "optimality_gap" or unit != UNITS["score"]}


def interval_table(groups: Iterable[Group], rng: np.random.Generator) -> Table:
    """Mean, median, IQM and optimality gap over runs and tasks with stratified-bootstrap 95% intervals."""
    rows, data, notes = [], [], []
    for group in groups:
        unit = even_unit(group.suite)
        for agent in group.agents:
            matrix = group.matrix(agent, unit)
            found = {metric: interval(matrix, statistic, rng) for metric, statistic in metrics_in(unit).items()}
            cells = [Cell(between(*found[m]) if m in found else NOTHING) for m in AGGREGATES]
            rows.append([Cell(group.title), Cell(agent), *cells])
            place = {**group.columns, "unit": unit.name, "agent": agent}
            runs = int(np.isfinite(matrix).sum())
            data += [{**place, "metric": m, **found[m]._asdict(), "runs": runs} for m in found]
        lacking = "" if "optimality_gap" in metrics_in(unit) else ", which has no optimality gap"
        notes.append(f"{group.title}: {unit.label}{lacking}")
    header = ["suite", "agent", *(METRIC_TITLES[metric] for metric in AGGREGATES)]
    title = "Aggregates over runs and tasks with 95% stratified-bootstrap intervals"
    return Table("aggregate_intervals", title, header, rows, data, notes)


def comparison_table(group: Group, comparisons: Sequence[Comparison]) -> Table:
    """Pairs of agents: difference, probability of improvement, p-values before and after Holm's correction."""
    rows, data = [], []
    for one in comparisons:
        cells = [between(*one.difference), between(*one.improvement), _p(one.p), _p(one.p_holm)]
        rows.append([Cell(f"{one.first} against {one.second}"), *map(Cell, cells)])
        data.append(_comparison_row(group, one))
    unit = even_unit(group.suite)
    notes = [
        f"Differences of the mean over tasks of the {unit.label}, on the tasks that both agents have",
        "Two-sided permutation tests within tasks; Holm's correction is over the pairs of this table",
    ]
    header = ["pair", "difference", "probability of improvement", "p", "p (Holm)"]
    return Table(f"comparisons_{group.slug}", f"Pairs of agents, {group.title}", header, rows, data, notes)


def _comparison_row(group: Group, one: Comparison) -> dict[str, Any]:
    row: dict[str, Any] = {**group.columns, "first": one.first, "second": one.second}
    for name, found in (("difference", one.difference), ("improvement", one.improvement)):
        row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return {**row, "p": one.p, "p_holm": one.p_holm}


def _p(value: float) -> str:
    if not math.isfinite(value):
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def coverage_table(group: Group) -> Table:
    """How many runs of each agent are finished, and how the others stand."""
    states = ("finished", "running", "interrupted", "diverged", "failed")
    rows, data = [], []
    for agent in group.agents:
        runs = group.runs_of(agent)
        counts = {state: sum(r.state == state for r in runs) for state in states}
        missing = len(group.envs) * len(group.seeds) - len(runs)
        rows.append([Cell(agent), *(Cell(str(n) if n else NOTHING) for n in (*counts.values(), missing))])
        data.append({**group.columns, "agent": agent, **counts, "missing": missing})
    header = ["agent", *states, "missing"]
    notes = [f"{counted(len(group.envs), 'environment')}, {counted(len(group.seeds), 'seed')}"]
    return Table(f"runs_{group.slug}", f"Runs, {group.title}", header, rows, data, notes)
