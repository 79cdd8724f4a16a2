"""Scores beside the paper's, environment by environment and over all of a suite: aggregates, profiles, pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.analysis.artefacts import pairs_table
from headrace.analysis.paper import UNITS, Unit, even_unit, paper_unit
from headrace.analysis.records import Record
from headrace.analysis.report import charts
from headrace.analysis.report.charts import dots, lines, row, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import tag
from headrace.analysis.report.parts import Body, Section, of_each_group, panel, panels, same_each_time, together
from headrace.analysis.report.tables import matrix_body, own, table_body
from headrace.analysis.score_tables import METRIC_TITLES, formula_table, interval_table, metrics_in, scores_table
from headrace.analysis.scores import Group
from headrace.analysis.stats import profile

SCORES_ABOUT = (
    "The score of a run is the mean of its last 50 log points. Below ours stand the paper's number and the difference: "
    "▲ above and ▼ below by more than twice its standard error, ≈ within it."
)
THRESHOLDS = 120  # of a performance profile
AGGREGATES_ABOUT = (
    "Over all runs and environments, in the {unit}. Bars are 95% stratified-bootstrap intervals, which take three "
    "seeds. A performance profile shows which share of the runs is above each score, averaged over environments."
)


def finished(group: Group) -> tuple[Record, ...]:
    """What scores depend on: runs that go on change nothing here."""
    return tuple(record for record in group.records if record.state == "finished")


def results(context: Context) -> list[Section]:
    return of_each_group(context, "scores", "Scores", _scores, standing)


def standing(group: Group) -> tuple[object, ...]:
    """The finished runs, and which others there are: what tables of scores and their notes are made of."""
    return finished(group), tuple((r.agent, r.env, r.seed, r.state) for r in group.records)


def _scores(context: Context, group: Group) -> Body:
    units = {unit.name: unit for unit in (paper_unit(group.suite), UNITS["score"])}
    tables = [matrix_body(context, scores_table(group, unit)) for unit in units.values()]
    about = SCORES_ABOUT if group.paper().scores else "The score of a run is the mean of its last 50 log points."
    missing = "" if group.paper().scores else " The paper has no numbers for this suite at this budget."
    return together(Body(tag("p", about, missing, class_="soft")), *tables)


def aggregates(context: Context) -> list[Section]:
    return of_each_group(context, "aggregates", "Aggregates", _aggregates, standing, lambda group: group.has_many)


def _aggregates(context: Context, group: Group) -> Body:
    unit = even_unit(group.suite)
    table = interval_table([group], same_each_time())
    shown = [_dots(context, group, metric, unit, table.data) for metric in metrics_in(unit)]
    about = Body(tag("p", AGGREGATES_ABOUT.format(unit=unit.label), class_="soft"))
    return together(
        about,
        panels(*shown, _profile(context, group, unit)),
        table_body(context, own(table, group)),
        table_body(context, own(formula_table([group]), group)),
        *(table_body(context, pairs) for pairs in [pairs_table(group, same_each_time())] if pairs.rows),
    )


def _dots(context: Context, group: Group, metric: str, unit: Unit, data: Sequence[Mapping[str, Any]]) -> Body:
    found = [one for one in data if one["metric"] == metric and np.isfinite(one["value"])]
    rows = [row(context.number(d["agent"]), d["agent"], d["value"], d["low"], d["high"]) for d in found]
    title = METRIC_TITLES[metric][0].upper() + METRIC_TITLES[metric][1:]
    return panel(f"{metric}-{group.slug}", dots(title, charts.axis(METRIC_TITLES[metric], unit.label), rows))


def _profile(context: Context, group: Group, unit: Unit) -> Body:
    matrices = {agent: scores for agent, scores in group.matrices(unit).items() if np.isfinite(scores).any()}
    top = max((float(np.nanmax(scores)) for scores in matrices.values()), default=1.0)
    bottom = min((0.0, *(float(np.nanmin(scores)) for scores in matrices.values())))
    thresholds = np.linspace(bottom, max(top, bottom + 1e-9), THRESHOLDS)
    drawn = [series(context.number(agent), agent, profile(m, thresholds)) for agent, m in matrices.items()]
    x = charts.axis("score above which a run is", unit.label, min=bottom, max=float(thresholds[-1]))
    y = charts.axis("share of runs", "0 to 1", min=0, max=1)
    return panel(f"profile-{group.slug}", lines("Performance profile", x, y, drawn, xs=thresholds, stairs=True))
