"""How agents learn where those without a guard are blind: curves and scores beside random play and the paper's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.agents.variants import UNGUARDED
from headrace.analysis.canvas import legend, line, panels, steps_axis, style, title
from headrace.analysis.curves import env_curves
from headrace.analysis.paper import Paper, table
from headrace.analysis.paper import key as env_key
from headrace.analysis.scores import Group
from headrace.analysis.style import PAPER_INK, looks_of
from headrace.analysis.table import NOTHING, Cell, Table, number
from headrace.training.progress import short_steps

PAPER_STEPS = {"atari": 10_000_000, "octax": 5_000_000}  # the paper's shorter budget


def together(groups: Sequence[Group], suite: str, steps: int) -> Group:
    """The runs of a suite and length with and without guards, those without under their own names."""
    records = []
    for group in groups:
        if (group.suite, group.steps) == (suite, steps):
            bare = {r.name for r in group.records if not group.guarded}
            records += [replace(r, agent=f"{r.agent}{UNGUARDED}") if r.name in bare else r for r in group.records]
    unique = {r.name: r for r in sorted(records, key=lambda r: r.agent.endswith(UNGUARDED), reverse=True)}
    kept = [r for r in unique.values() if r.state == "finished"]
    return Group(suite, steps, tuple(kept))


def random_return(env: str) -> float:
    """What random play scores, where the paper's table of constants has it; else NaN."""
    rows = {env_key(row["env"]): float(row["random"]) for row in table("human_random")}
    return rows.get(env_key(env), np.nan)


def learning_table(group: Group, name: str) -> Table:
    """Agents x games: mean score and its seeds; below it the paper's return at its own, longer budget."""
    paper = Paper.of(group.suite, PAPER_STEPS.get(group.suite, 0))
    rows, data = [], []
    known = {env: random_return(env) for env in group.envs}
    if np.isfinite(list(known.values())).any():
        rows.append([Cell("random play"), *(Cell(number(x) if np.isfinite(x) else NOTHING) for x in known.values())])
    for agent in group.agents:
        cells = [Cell(agent)]
        for env in group.envs:
            scores = [r.score.mean for r in group.runs_of(agent, env) if r.score]
            theirs = paper.episode_return(env, agent)
            cells.append(_cell(scores, theirs.mean if theirs else np.nan))
            place = {"suite": group.suite, "steps": group.steps, "agent": agent, "env": env, "runs": len(scores)}
            ends = {"min": min(scores, default=np.nan), "max": max(scores, default=np.nan)}
            mean = float(np.mean(scores)) if scores else np.nan
            theirs_data = {"paper_steps": paper.steps, "paper_mean": theirs.mean if theirs else np.nan}
            data.append({**place, "mean": mean, **ends, **theirs_data})
        rows.append(cells)
    header = ["agent", *(env.partition("/")[2] for env in group.envs)]
    notes = [
        f"Score at {short_steps(group.steps)} steps: mean over seeds (smallest to largest)",
        f"Second line: the paper's mean return at {short_steps(paper.steps)} steps, "
        f"{paper.steps / group.steps:.0f} times as long",
    ]
    return Table(name, f"Learning, {group.title}", header, rows, data, notes)


def _cell(scores: Sequence[float], paper: float) -> Cell:
    theirs = number(paper) if np.isfinite(paper) else ""
    if not scores:
        return Cell(NOTHING, theirs)
    spread = f"({min(scores):.1f} to {max(scores):.1f})" if len(scores) > 1 else "(1 seed)"
    return Cell(f"{number(float(np.mean(scores)))} {spread}", theirs)


def learning_figure(group: Group, rng: np.random.Generator) -> Any:
    """A panel a game: every agent's mean return, random play as a dotted line."""
    looks = looks_of(group.agents)
    figure, axes = panels(len(group.envs), 3, 3.0, 2.3, len(group.agents))
    curves = env_curves(group, "return", rng)
    for panel, env in zip(axes, group.envs, strict=True):
        for agent, curve in curves[env].items():
            line(panel, looks[agent], curve.steps, curve.mean, curve.low, curve.high)
        if np.isfinite(random_return(env)):
            panel.axhline(random_return(env), color=PAPER_INK, linewidth=1, linestyle=":", zorder=1)
        style(panel, env.partition("/")[2], "environment steps", "return (raw reward)")
        steps_axis(panel, group.steps)
    dotted = "; dotted: random play" if any(np.isfinite(random_return(env)) for env in group.envs) else ""
    title(figure, f"Learning curves, {group.title}{dotted}")
    legend(figure, group.agents, looks)
    return figure
