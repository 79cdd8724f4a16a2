"""The paper's figures, drawn from runs. Each function gives a matplotlib figure; `canvas.save` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.analysis.ablations import Ablation
from headrace.analysis.canvas import legend, line, new_figure, panels, shortened, steps_axis, style, title
from headrace.analysis.curves import Curve
from headrace.analysis.latents import Latents
from headrace.analysis.paper import even_unit
from headrace.analysis.scores import Group
from headrace.analysis.stats import AGGREGATES, Interval, bootstrap, percentiles, profile, task_means
from headrace.analysis.style import PAPER_INK, Look, Looks
from headrace.training.curve import EDGE, FAINT, INK

METRIC_LABELS = {"mean": "mean", "median": "median", "iqm": "IQM", "optimality_gap": "optimality gap (less is better)"}
THRESHOLDS = 101
PROFILE_RESAMPLES = 300


def learning_curves(group: Group, curves: Mapping[str, Mapping[str, Curve]], looks: Looks) -> Any:
    """A panel an environment: the mean over seeds of each agent with its interval."""
    figure, axes = panels(len(group.envs), 5 if len(group.envs) > 6 else 3, 2.7, 1.9, len(group.agents))
    for panel, env in zip(axes, group.envs, strict=True):
        for agent, curve in curves[env].items():
            line(panel, looks[agent], curve.steps, curve.mean, curve.low, curve.high)
        style(panel, env.partition("/")[2] or env, "environment steps", "return (raw reward)")
        steps_axis(panel, group.steps)
    title(figure, f"Learning curves, {group.title}: mean over seeds, 95% interval")
    legend(figure, group.agents, looks)
    return figure


def suite_curve(group: Group, curves: Mapping[str, Curve], looks: Looks, words: str, y: str, zero: bool = False) -> Any:
    """One panel: the mean over environments and seeds of each agent with its interval."""
    figure, (panel,) = panels(1, 1, 6.4, 3.4, len(curves))
    for agent, curve in curves.items():
        line(panel, looks[agent], curve.steps, curve.mean, curve.low, curve.high)
    if zero:
        panel.axhline(0, color=EDGE, linewidth=0.8, zorder=1)
    style(panel, "", "environment steps", y)
    steps_axis(panel, group.steps)
    title(figure, f"{words}, {group.title}")
    legend(figure, list(curves), looks)
    return figure


def aggregate_metrics(group: Group, found: Mapping[str, Mapping[str, Interval]], looks: Looks) -> Any:
    """A panel a metric, a row an agent: the number and its interval."""
    agents = [agent for agent in group.agents if agent in found]
    metrics = [metric for metric in AGGREGATES if all(metric in found[agent] for agent in agents)]
    names = shortened(agents)
    width, height = 2.5 * len(metrics) + 1.9, 0.30 * len(agents) + 1.35
    figure = new_figure(width, height)
    for number, metric in enumerate(metrics):
        left = (1.75 + number * 2.5) / width
        panel = figure.add_axes((left, 0.62 / height, 2.2 / width, (height - 1.25) / height))
        for row, agent in enumerate(reversed(agents)):
            _interval_mark(panel, looks[agent], found[agent][metric], row)
        style(panel, METRIC_LABELS[metric], even_unit(group.suite).label)
        panel.set_ylim(-0.6, len(agents) - 0.4)
        panel.set_yticks(range(len(agents)), names[::-1] if number == 0 else [""] * len(agents))
        panel.locator_params(axis="x", nbins=4)
        panel.set_xlim(*_room([x for agent in agents for x in found[agent][metric]]))
    title(figure, f"Aggregates over runs and tasks, {group.title}: 95% stratified-bootstrap intervals")
    return figure


def _room(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis that leave some room on both sides of the numbers."""
    known = [value for value in values if np.isfinite(value)] or [0.0, 1.0]
    spare = 0.06 * (max(known) - min(known)) or 0.5
    return min(known) - spare, max(known) + spare


def _interval_mark(panel: Any, look: Look, found: Interval, row: float) -> None:
    if np.isfinite(found.low):
        panel.barh(row, found.high - found.low, left=found.low, height=0.5, color=look.colour, alpha=0.45, linewidth=0)
    if np.isfinite(found.value):
        panel.plot([found.value] * 2, [row - 0.3, row + 0.3], color=look.colour, linewidth=2.2, solid_capstyle="butt")


def performance_profiles(group: Group, looks: Looks, rng: np.random.Generator) -> Any:
    """The share of runs above each score, averaged over tasks, with pointwise intervals."""
    unit = even_unit(group.suite)
    matrices = group.scored(unit)
    top = max((float(np.nanquantile(m, 0.98)) for m in matrices.values()), default=1.0)
    thresholds = np.linspace(0.0, max(top, 1e-6), THRESHOLDS)
    figure, (panel,) = panels(1, 1, 6.4, 3.4, len(matrices))
    for agent, matrix in matrices.items():
        drawn = bootstrap([matrix], lambda m: profile(m, thresholds), rng, PROFILE_RESAMPLES)
        low, high = percentiles(drawn)
        line(panel, looks[agent], thresholds, profile(matrix, thresholds), low, high)
    style(panel, "", f"score x ({unit.label})", "share of runs above x")
    panel.set_xlim(0, thresholds[-1])
    panel.set_ylim(0, 1.02)
    title(figure, f"Performance profiles, {group.title}: pointwise 95% intervals")
    legend(figure, list(matrices), looks)
    return figure


def rank_bars(group: Group, ranks: Mapping[str, np.ndarray], looks: Looks) -> Any:
    """Effective rank at the end of training: a bar an agent, a dot an environment, the paper's where it has one."""
    agents = [agent for agent in reversed(group.agents) if agent in ranks and np.isfinite(ranks[agent]).any()]
    figure, (panel,) = panels(1, 1, 4.6, 0.32 * len(agents) + 0.3, left=1.95)
    for row, agent in enumerate(agents):
        means, look, theirs = task_means(ranks[agent]), looks[agent], group.paper().ranks.get(agent)
        known = means[np.isfinite(means)]
        panel.barh(row, known.mean(), height=0.62, color=look.colour, alpha=0.75)
        panel.plot(known, np.full(len(known), row), "o", color=INK, markersize=2.6, alpha=0.7)
        if theirs:
            panel.errorbar(
                theirs.mean, row + 0.38, xerr=theirs.std, fmt="|", color=PAPER_INK, capsize=2, elinewidth=0.9
            )
    style(panel, "", "effective rank of the latents (dimensions)")
    panel.set_yticks(range(len(agents)), shortened(agents))
    panel.grid(axis="y", visible=False)
    beside = ", grey the paper's" if group.paper().ranks else ""
    title(figure, f"Effective rank, {group.title}: dots are environments{beside}")
    return figure


def ablation_bars(group: Group, ablations: Sequence[Ablation], effects: Mapping[str, Interval], looks: Looks) -> Any:
    """A panel an ablation: the mean over tasks of every setting with its interval."""
    figure, axes = panels(len(ablations), 3, 2.6, 1.8, left=1.6)
    for panel, ablation in zip(axes, ablations, strict=True):
        for row, (_, agent) in enumerate(reversed(ablation.agents)):
            found, look = effects[agent], looks[agent]
            panel.barh(row, found.value, height=0.55, color=look.colour, alpha=0.75)
            if np.isfinite(found.low):
                panel.plot([found.low, found.high], [row, row], color=INK, linewidth=1.1)
        style(panel, ablation.title, even_unit(group.suite).label)
        panel.set_yticks(range(len(ablation.agents)), shortened([value for value, _ in reversed(ablation.agents)]))
        panel.grid(axis="y", visible=False)
        panel.locator_params(axis="x", nbins=5)
    title(figure, f"Ablations, {group.title}: mean over tasks, 95% interval")
    return figure


def tsne_panels(rows: Sequence[tuple[str, Mapping[int, np.ndarray]]], perplexity: float, words: str, steps: int) -> Any:
    """A row an agent, a column a checkpoint: t-SNE of the fixed trajectory's latents, coloured by time."""
    columns = max(len(points) for _, points in rows)
    side, width = 1.55, 0.9 + columns * 1.7 + 1.05
    height = 0.75 + len(rows) * 1.8 + 0.15
    figure = new_figure(width, height)
    shown, names = None, shortened([agent for agent, _ in rows])
    for r, (_, points) in enumerate(rows):
        for c, (step, xy) in enumerate(sorted(points.items())):
            place = (0.9 + c * 1.7, height - 0.75 - (r + 1) * 1.8 + 0.2, side, side)
            panel = figure.add_axes((place[0] / width, place[1] / height, place[2] / width, place[3] / height))
            time = np.arange(len(xy))
            shown = panel.scatter(*xy.T, c=time, s=1.2, cmap="viridis", linewidths=0, rasterized=True)
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set_color(FAINT)
            when = "before training" if step == 0 else f"after {step / steps:.0%}"
            panel.set_title(when, fontsize=8.5, color=INK, pad=3)
            if c == 0:
                panel.set_ylabel(names[r], fontsize=9, color=INK)
    bar = figure.add_axes(((width - 0.95) / width, 0.35 / height, 0.12 / width, (height - 1.2) / height))
    figure.colorbar(shown, cax=bar).set_label("step of the trajectory", fontsize=8.5, color=INK)
    bar.tick_params(labelsize=7.5, colors=INK)
    title(figure, f"{words}: t-SNE of the latents, perplexity {perplexity:g}")
    return figure


def latents_over_training(agents: Sequence[tuple[str, Latents]], looks: Looks, words: str) -> Any:
    """Effective rank, silent units and weight norms of runs at each of their checkpoints."""
    figure, axes = panels(3, 3, 2.9, 2.2, len(agents))
    labels = ("effective rank (dimensions)", "share of encoder units", "norm of the encoder's weights")
    headings = ("Effective rank (dotted: centred)", "Dormant units", "Weights")
    for agent, found in agents:
        steps = np.array([at.step for at in found.steps], float)
        nothing, look = np.full(len(steps), np.nan), looks[agent]
        series = (
            [at.effective_rank for at in found.steps],
            [at.silence["encoder"].dormant for at in found.steps],
            [at.norms.get("encoder", np.nan) for at in found.steps],
        )
        for panel, values in zip(axes, series, strict=True):
            line(panel, look, steps, np.array(values, float), nothing, nothing)
            panel.plot(steps, values, look.marker, color=look.colour, markersize=3.5)
        centred = [at.effective_rank_centred for at in found.steps]
        axes[0].plot(steps, centred, ":", color=look.colour, linewidth=1)
    last = max(found.last.step for _, found in agents)
    for panel, heading, label in zip(axes, headings, labels, strict=True):
        style(panel, heading, "environment steps", label)
        steps_axis(panel, max(last, 1))
        panel.set_ylim(bottom=0)
    title(figure, words)
    legend(figure, [agent for agent, _ in agents], looks)
    return figure
