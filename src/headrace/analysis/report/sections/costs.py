"""Ablations, a table for each suite and length, and what runs cost, one for all."""

from __future__ import annotations

from functools import partial

from headrace.analysis.ablations import ablation_table, present
from headrace.analysis.cost import cost_table
from headrace.analysis.paper import even_unit
from headrace.analysis.report import charts
from headrace.analysis.report.charts import dots, row
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import tag
from headrace.analysis.report.parts import Body, Section, panel, panels, same_each_time, together
from headrace.analysis.report.sections.scores import standing
from headrace.analysis.report.tables import own, table_body
from headrace.analysis.scores import Group
from headrace.analysis.table import Table

ABLATIONS_ABOUT = (
    "One setting varied at a time. The charts show the mean over environments and seeds on one scale with its 95% "
    "bootstrap interval; agents that are switched off above are not in them."
)


def ablations(context: Context) -> list[Section]:
    """One for each group in which a setting was varied."""
    return [
        Section(
            f"ablations-{group.slug}",
            "Ablations",
            standing(group),
            partial(_ablations, context, group),
            context.tab(group),
        )
        for group in context.groups
        if present(group)
    ]


def _ablations(context: Context, group: Group) -> Body:
    table = ablation_table([group], same_each_time())
    about = Body(tag("p", ABLATIONS_ABOUT, class_="soft"))
    return together(about, panels(*_panels(context, group, table)), table_body(context, own(table, group)))


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
