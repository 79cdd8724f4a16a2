"""What was logged during training, averaged over seeds on a common grid of steps, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.analysis.paper import UNITS, Unit
from headrace.analysis.records import Record, counted
from headrace.analysis.scores import Group
from headrace.analysis.stats import FEWEST, percentiles

GRID = 200  # points of a curve
RESAMPLES = 500
SHORT_RUNS = "Where a run has ended early or is still going, the rest of its curve is the mean of the other runs."


class Curve(NamedTuple):
    """A mean over runs at each step, with its bootstrap interval; NaN bounds where there are fewer than three runs."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: int
    short: int  # of them, those that end before the curve does

    @property
    def counted(self) -> str:
        short = f", {self.short} of them ended early" if self.short else ""
        return f"{counted(self.runs, 'run')}{short}"


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

    It begins where every run has a value and ends where a task has no run left. Where a run ends early the rest is the
    mean of the task's others, as in the tables of scores.
    """
    known = np.isfinite(np.concatenate(tasks))
    begun = np.logical_or.accumulate(known, axis=1).all(axis=0)
    left = np.all([np.isfinite(lines).any(axis=0) for lines in tasks], axis=0)
    (columns,) = np.nonzero(begun & left)
    found = np.full((3, len(steps)), np.nan)
    for stretch in _stretches(known, columns):
        parts = [lines[:, stretch] for lines in tasks]
        found[:, stretch] = _mean_and_interval([part[np.isfinite(part).all(axis=1)] for part in parts], rng)
    short = int((~known[:, columns[-1]]).sum()) if len(columns) else 0
    mean, low, high = found
    return Curve(steps, mean, low, high, len(known), short)


def _stretches(known: np.ndarray, columns: np.ndarray) -> list[np.ndarray]:
    """The columns, parted where a run ends."""
    changes = (known[:, columns[1:]] != known[:, columns[:-1]]).any(axis=0)
    return [part for part in np.split(columns, np.flatnonzero(changes) + 1) if len(part)]


def _mean_and_interval(tasks: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """The mean, and the bounds of its interval, which are NaN where no task has three runs."""
    centre = np.mean([lines.mean(axis=0) for lines in tasks], axis=0)
    if max(len(lines) for lines in tasks) < FEWEST:
        return np.stack([centre, np.full_like(centre, np.nan), np.full_like(centre, np.nan)])
    drawn = np.zeros((RESAMPLES, len(centre)))
    for lines in tasks:
        # The mean of a resample is a product with how often each run was drawn.
        counts = rng.multinomial(len(lines), np.full(len(lines), 1 / len(lines)), RESAMPLES)
        drawn += counts @ lines / (len(lines) * len(tasks))
    return np.stack([centre, *percentiles(drawn)])


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
