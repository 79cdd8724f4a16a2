"""What was learnt beside the score: how the two updates lie to each other, and the latents' effective rank."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from headrace.analysis.curves import grid, suite_curves
from headrace.analysis.latents import NUMBERS
from headrace.analysis.ranks import probe_table, rank_table
from headrace.analysis.report import charts
from headrace.analysis.report.charts import lines, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, tag
from headrace.analysis.report.parts import (
    Body,
    Section,
    heading,
    of_each_group,
    panel,
    panels,
    same_each_time,
    together,
)
from headrace.analysis.report.quantities import quantity
from headrace.analysis.report.tables import own, table_body
from headrace.analysis.scores import Group
from headrace.runs import packs

COSINES = ("cosine_before_orth", "cosine_before_orth2")
COSINE_ABOUT = (
    "The cosine between the RL update and the auxiliary update on the encoder, mean over environments and seeds, with "
    "95% bootstrap intervals: before orth (as the two streams give them), and after orth but before orth2."
)


def representation(context: Context) -> list[Section]:
    return of_each_group(
        context, "representation", "Representation", _body, lambda group: (group.records, latents_stamp(group))
    )


def latents_stamp(group: Group) -> tuple[int, ...]:
    """Changes when `headrace latents` has written something for one of the group's runs."""
    return tuple(_changed(packs.holder(record.path) or record.path / NUMBERS) for record in group.records)


def _changed(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _body(context: Context, group: Group) -> Body:
    return together(_cosines(context, group), _ranks(context, group))


def _cosines(context: Context, group: Group) -> Body:
    drawn = [_cosine(context, group, column) for column in COSINES]
    if not any(chart.charts for chart in drawn):
        return Body(Html(""))  # no agent here has an auxiliary
    return together(heading("RL and auxiliary updates", COSINE_ABOUT), panels(*drawn))


def _cosine(context: Context, group: Group, column: str) -> Body:
    found = suite_curves(group, column, same_each_time())
    if not found:
        return Body(Html(""))
    what = quantity(column)
    drawn = [series(context.number(a), f"{a} ({c.counted})", c.mean, c.low, c.high) for a, c in found.items()]
    x, y = {**charts.STEPS, "max": group.steps}, charts.axis("cosine", what.unit)
    title = f"{what.label[0].upper()}{what.label[1:]}"
    return panel(f"{column}-{group.slug}", lines(title, x, y, drawn, grid(group.steps)))


def _ranks(context: Context, group: Group) -> Body:
    ranks, probes = rank_table([group]), probe_table([group])
    if not ranks.rows:
        said = tag(
            "p",
            "No run's latents have been looked at yet: ",
            tag("code", f"headrace latents '{context.root}'"),
            " does it.",
            class_="note",
        )
        return together(heading("Latents"), Body(said))
    shown = [table_body(context, own(ranks, group))]
    if probes.rows:
        inner = table_body(context, own(probes, group))
        folded = tag("details", tag("summary", "What a linear reader tells of the game's state"), inner.html)
        shown.append(replace(inner, html=folded))
    return together(heading("Latents"), *shown)
