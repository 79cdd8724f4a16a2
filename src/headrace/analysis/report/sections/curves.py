"""Learning curves: one panel for each environment, a line with its interval for each agent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.analysis.curves import SHORT_RUNS, Curve, env_curves, grid, suite_curves
from headrace.analysis.paper import Paper, even_unit
from headrace.analysis.report import charts
from headrace.analysis.report.charts import Chart, lines, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import tag
from headrace.analysis.report.parts import Body, Section, of_each_group, panel, panels, same_each_time, together
from headrace.analysis.scores import Group
from headrace.analysis.stats import FEWEST
from headrace.errors import counted

RETURN = charts.axis("return of 100 episodes", "raw reward")


def learning_curves(context: Context) -> list[Section]:
    return of_each_group(context, "curves", "Learning curves", _body, lambda group: group.records)


def _body(context: Context, group: Group) -> Body:
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
    x, y = {**charts.STEPS, "max": group.steps}, charts.axis("score", unit.label)
    title = f"Mean over {len(group.envs)} environments"
    return [panel(f"curve-{group.slug}", lines(title, x, y, _series(context, found), grid(group.steps)))]


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
    steps = grid(group.steps)
    marks = _marks(context, group.paper(), env, found)
    chart = lines(env, {**charts.STEPS, "max": group.steps}, RETURN, _series(context, found), steps, marks=marks)
    return panel(f"curve-{group.slug}-{env}", chart)


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
