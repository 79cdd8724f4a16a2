"""What was logged during training: learning curves, how the two updates lie to each other; and effective ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.analysis.curves import SHORT_RUNS, Curve, env_curves, grid, suite_curves
from headrace.analysis.latents import NUMBERS
from headrace.analysis.paper import Paper, even_unit
from headrace.analysis.ranks import probe_table, rank_table
from headrace.analysis.report import charts
from headrace.analysis.report.charts import Chart, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, tag
from headrace.analysis.report.parts import (
    Body,
    Section,
    heading,
    of_each_group,
    over_steps,
    panels,
    same_each_time,
    together,
)
from headrace.analysis.report.quantities import quantity
from headrace.analysis.report.tables import own, table_body
from headrace.analysis.scores import Group
from headrace.analysis.stats import FEWEST
from headrace.errors import counted
from headrace.runs import packs

RETURN = charts.axis("return of 100 episodes", "raw reward")
COSINES = ("cosine_before_orth", "cosine_before_orth2")
COSINE_ABOUT = (
    "The cosine between the RL update and the auxiliary update on the encoder, mean over environments and seeds, with "
    "95% bootstrap intervals: before orth (as the two streams give them), and after orth but before orth2."
)


def learning_curves(context: Context) -> list[Section]:
    return of_each_group(context, "curves", "Learning curves", _curves, lambda group: group.records)


def _curves(context: Context, group: Group) -> Body:
    found = env_curves(group, "return", same_each_time())
    is_short = any(curve.short for by_agent in found.values() for curve in by_agent.values())
    about = Body(tag("p", _about(group), f" {SHORT_RUNS}" if is_short else "", class_="soft"))
    shown = [_panel(context, group, env, found[env]) for env in group.envs]
    return together(about, panels(*_whole(context, group), *shown))


def _whole(context: Context, group: Group) -> list[Body]:
    """The mean over environments on one scale, where there are several and some agent has them all."""
    unit = even_unit(group.suite)
    found = suite_curves(group, "return", same_each_time(), unit) if len(group.envs) > 1 else {}
    if not any(np.isfinite(curve.mean).any() for curve in found.values()):
        return []
    title, y = f"Mean over {len(group.envs)} environments", charts.axis("score", unit.label)
    return [over_steps(f"curve-{group.slug}", group.steps, title, y, _series(context, found), grid(group.steps))]


def _series(context: Context, found: Mapping[str, Curve]) -> list[Chart]:
    return [
        series(context.number(agent), f"{agent} ({curve.counted})", curve.mean, curve.low, curve.high)
        for agent, curve in found.items()
    ]


def _about(group: Group) -> str:
    marks = " A hollow diamond at the right edge is the paper's return at this budget." if group.paper().scores else ""
    if len(group.seeds) < FEWEST:
        return f"Mean over {counted(len(group.seeds), 'seed')}: too few for an interval, which takes {FEWEST}.{marks}"
    return f"Mean over up to {len(group.seeds)} seeds; the band is its 95% bootstrap interval.{marks}"


def _panel(context: Context, group: Group, env: str, found: dict[str, Curve]) -> Body:
    marks, drawn = _marks(context, group.paper(), env, found), _series(context, found)
    return over_steps(f"curve-{group.slug}-{env}", group.steps, env, RETURN, drawn, grid(group.steps), marks=marks)


def _marks(context: Context, paper: Paper, env: str, found: dict[str, Curve]) -> list[Chart]:
    known = [(agent, paper.episode_return(env, agent)) for agent in found]
    return [
        {
            "agent": context.number(agent),
            "y": value.mean,
            "label": f"{agent}: the paper's {value.mean:.4g} ± {value.std:.3g}",
        }
        for agent, value in known
        if value
    ]


def representation(context: Context) -> list[Section]:
    def body(context: Context, group: Group) -> Body:
        return together(_cosines(context, group), _ranks(context, group))

    def inputs(group: Group) -> tuple[object, ...]:
        return group.records, latents_stamp(group)

    return of_each_group(context, "representation", "Representation", body, inputs)


def latents_stamp(group: Group) -> tuple[int, ...]:
    """Changes when `headrace latents` has written something for one of the group's runs."""
    return tuple(_changed(packs.holder(record.path) or record.path / NUMBERS) for record in group.records)


def _changed(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


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
    title, y = f"{what.label[0].upper()}{what.label[1:]}", charts.axis("cosine", what.unit)
    return over_steps(f"{column}-{group.slug}", group.steps, title, y, _series(context, found), grid(group.steps))


def _ranks(context: Context, group: Group) -> Body:
    ranks, probes = rank_table([group]), probe_table([group])
    if not ranks.rows:
        said = tag(
            "p",
            "No analysis of latents yet: ",
            tag("code", f"headrace latents '{context.root}'"),
            " makes one for each run.",
            class_="note",
        )
        return together(heading("Latents"), Body(said))
    shown = [table_body(context, own(ranks, group))]
    if probes.rows:
        inner = table_body(context, own(probes, group))
        folded = tag("details", tag("summary", "What a linear reader tells of the game's state"), inner.html)
        shown.append(replace(inner, html=folded))
    return together(heading("Latents"), *shown)
