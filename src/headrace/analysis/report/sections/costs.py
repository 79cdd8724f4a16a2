"""Ablations, and what runs cost: one table each for all suites."""

from __future__ import annotations

from dataclasses import replace

from headrace.analysis.ablations import ablation_table, present
from headrace.analysis.cost import cost_table
from headrace.analysis.paper import even_unit
from headrace.analysis.report import charts
from headrace.analysis.report.charts import dots, row
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import tag
from headrace.analysis.report.parts import Body, Section, panel, panels, same_each_time, together
from headrace.analysis.report.sections.scores import standing
from headrace.analysis.report.tables import table_body
from headrace.analysis.scores import Group
from headrace.analysis.table import Table

ABLATIONS_ABOUT = (
    "One setting varied at a time. The charts show the mean over environments and seeds on one scale with its 95% "
    "bootstrap interval; agents that are switched off above are not in them."
)


def ablations(context: Context) -> list[Section]:
    """Nothing where no setting was varied."""
    if not any(present(group) for group in context.groups):
        return []
    inputs = tuple(standing(group) for group in context.groups)
    return [Section("ablations", "Ablations", inputs, lambda: _ablations(context))]


def _ablations(context: Context) -> Body:
    table = ablation_table(context.groups, same_each_time())
    shown = [_of(context, group, table) for group in context.groups]
    return together(Body(tag("p", ABLATIONS_ABOUT, class_="soft")), *shown, table_body(context, table))


def _of(context: Context, group: Group, table: Table) -> Body:
    """A group's charts, behind its tab where there are several groups."""
    inner = panels(*_panels(context, group, table))
    return replace(inner, html=tag("div", inner.html, data_tab=context.tab(group) or None))


def _panels(context: Context, group: Group, table: Table) -> list[Body]:
    """One panel for each ablation of a group, read off the table so that both show the same numbers."""
    shown = []
    for ablation in present(group):
        rows = [
            row(context.number(d["agent"]), str(d["value"]), d["scaled_value"], d["scaled_low"], d["scaled_high"])
            for d in table.data
            if (d["suite"], d["steps"], d["ablation"], d["metric"]) == (group.suite, group.steps, ablation.name, "mean")
        ]
        unit = charts.axis("mean", even_unit(group.suite).label)
        shown.append(
            panel(f"ablation-{group.slug}-{ablation.name}", dots(f"{ablation.title}, {group.title}", unit, rows))
        )
    return shown


def costs(context: Context) -> Section:
    inputs = tuple(standing(group) for group in context.groups)
    return Section("cost", "Cost", inputs, lambda: table_body(context, cost_table(context.groups)))
