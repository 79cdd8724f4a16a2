"""Scores over all environments of a suite: aggregates with intervals, performance profiles, the paper's own formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.analysis.artefacts import compared
from headrace.analysis.paper import Unit, even_unit
from headrace.analysis.report import charts
from headrace.analysis.report.charts import Chart, dots, lines, row, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import tag
from headrace.analysis.report.parts import Body, Section, panel, panels, together
from headrace.analysis.report.sections.results import standing
from headrace.analysis.report.tables import own, table_body
from headrace.analysis.score_tables import METRIC_TITLES, comparison_table, formula_table, interval_table, metrics_in
from headrace.analysis.scores import Group
from headrace.analysis.stats import profile
from headrace.analysis.table import Table

SEED = 0  # of the bootstraps: the same runs give the same page
THRESHOLDS = 120  # of a performance profile
ABOUT = (
    "Over all runs and environments, in the {unit}. Bars are 95% stratified-bootstrap intervals, which take three "
    "seeds. A performance profile shows which share of the runs is above each score, averaged over environments."
)


def aggregates(context: Context) -> list[Section]:
    return [
        Section(
            f"aggregates-{group.slug}",
            "Aggregates",
            standing(group),
            partial(_body, context, group),
            context.tab(group),
        )
        for group in context.groups
        if group.has_many
    ]


def _body(context: Context, group: Group) -> Body:
    unit = even_unit(group.suite)
    table = interval_table([group], np.random.default_rng(SEED))
    shown = [_dots(context, group, metric, unit, table.data) for metric in metrics_in(unit)]
    about = Body(tag("p", ABOUT.format(unit=unit.label), class_="soft"))
    return together(
        about,
        panels(*shown, _profile(context, group, unit)),
        table_body(context, own(table, group)),
        table_body(context, own(formula_table([group]), group)),
        *(table_body(context, pairs) for pairs in [_pairs(group)] if pairs.rows),
    )


def _pairs(group: Group) -> Table:
    return comparison_table(group, compared(group, np.random.default_rng(SEED)))


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
    drawn = [_shares(context, agent, profile(scores, thresholds)) for agent, scores in matrices.items()]
    x = charts.axis("score above which a run is", unit.label, min=bottom, max=float(thresholds[-1]))
    y = charts.axis("share of runs", "0 to 1", min=0, max=1)
    return panel(f"profile-{group.slug}", lines("Performance profile", x, y, drawn, xs=thresholds, stairs=True))


def _shares(context: Context, agent: str, shares: np.ndarray) -> Chart:
    return series(context.number(agent), agent, shares)
