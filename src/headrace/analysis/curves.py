"""What was logged during training, averaged over seeds on a common grid of steps, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.analysis.paper import UNITS, Unit
from headrace.analysis.records import Record
from headrace.analysis.scores import Group
from headrace.analysis.stats import percentiles

GRID = 200  # points of a curve
RESAMPLES = 500


class Curve(NamedTuple):
    """A mean over runs at each step, with its bootstrap interval; NaN bounds where there is one run."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: int


def grid(steps: int, points: int = GRID) -> np.ndarray:
    """Evenly spaced steps of a budget, the last one included and 0 not."""
    return np.linspace(0, steps, points + 1)[1:]


def on_grid(record: Record, column: str, steps: np.ndarray) -> np.ndarray:
    """A logged column at those steps; NaN before its first known value and after its last."""
    logged = record.curve((column,))
    known = np.isfinite(logged.get(column, np.empty(0)))
    if not known.any():
        return np.full(len(steps), np.nan)
    return np.interp(steps, logged["step"][known], logged[column][known], left=np.nan, right=np.nan)


def task_lines(
    group: Group, agent: str, column: str, steps: np.ndarray, unit: Unit = UNITS["score"]
) -> dict[str, np.ndarray]:
    """For each environment, the lines of the agent's runs as (runs x steps); unfinished runs reach as far as they got.

    An environment in which no run logs the column is absent.
    """
    found = {}
    for env in group.envs:
        lines = [on_grid(record, column, steps) for record in group.runs_of(agent, env)]
        lines = [line for line in lines if np.isfinite(line).any()]
        if lines:
            found[env] = unit.convert(env, np.array(lines))
    return found


def mean_curve(steps: np.ndarray, tasks: Sequence[np.ndarray], rng: np.random.Generator) -> Curve:
    """The mean over tasks of the mean over their runs; the interval resamples the runs of each task.

    A step counts only where every run of every task has a value, so that no curve jumps where one of them ends.
    """
    whole = np.isfinite(np.concatenate(tasks)).all(axis=0)
    centre = np.where(whole, np.mean([lines.mean(axis=0) for lines in tasks], axis=0), np.nan)
    runs = sum(len(lines) for lines in tasks)
    if max(len(lines) for lines in tasks) < 2:
        unknown = np.full(len(steps), np.nan)
        return Curve(steps, centre, unknown, unknown, runs)
    drawn = np.zeros((RESAMPLES, len(steps)))
    for lines in tasks:
        # The mean of a resample is a product with how often each run was drawn.
        counts = rng.multinomial(len(lines), np.full(len(lines), 1 / len(lines)), RESAMPLES)
        drawn += counts @ np.where(whole, lines, 0.0) / (len(lines) * len(tasks))
    low, high = np.where(whole, percentiles(drawn), np.nan)
    return Curve(steps, centre, low, high, runs)


def env_curves(group: Group, column: str, rng: np.random.Generator) -> dict[str, dict[str, Curve]]:
    """By environment and agent: the mean over seeds of a logged column."""
    steps = grid(group.steps)
    found: dict[str, dict[str, Curve]] = {env: {} for env in group.envs}
    for agent in group.agents:
        for env, lines in task_lines(group, agent, column, steps).items():
            found[env][agent] = mean_curve(steps, [lines], rng)
    return found


def suite_curves(group: Group, column: str, rng: np.random.Generator, unit: Unit = UNITS["score"]) -> dict[str, Curve]:
    """By agent: the mean over environments and seeds of a logged column; agents without some environment are absent."""
    steps = grid(group.steps)
    found = {}
    for agent in group.agents:
        lines = task_lines(group, agent, column, steps, unit)
        if set(lines) == set(group.envs):
            found[agent] = mean_curve(steps, list(lines.values()), rng)
    return found
