"""Two agents compared: difference, probability of improvement, and a permutation test corrected for many pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headrace.analysis.stats import (
    BLOCK,
    REPETITIONS,
    Interval,
    Statistic,
    interval,
    mean,
    probability_of_improvement,
)

PERMUTATIONS = 4999
ANGLES = 20_001  # at which the density of Student's t is summed


class Comparison(NamedTuple):
    """Two agents compared: how likely the first is above the second, and how surprising that is without a difference.

    `p` is the two-sided p-value of a permutation test on the difference of the mean over tasks, runs of a task being
    exchanged between the two agents; `p_holm` is corrected for all the pairs tested together.
    """

    first: str
    second: str
    difference: Interval  # of the mean over tasks, first - second
    improvement: Interval  # probability that a run of the first is above one of the second
    p: float
    p_holm: float


def permutation_p(
    x: np.ndarray, y: np.ndarray, statistic: Statistic, rng: np.random.Generator, repetitions: int = PERMUTATIONS
) -> float:
    """The share of exchanges of runs between x and y, within each task, with a difference as large; both sides."""
    pooled = np.concatenate([x, y])
    seen = abs(float(statistic(x) - statistic(y)))
    if np.isnan(seen):
        return np.nan
    block = max(1, BLOCK // (8 * pooled.size))
    hits = 0
    for done in range(0, repetitions, block):
        size = min(block, repetitions - done)
        shuffled = _exchanged(pooled, size, rng)
        differences = statistic(shuffled[:, : len(x)]) - statistic(shuffled[:, len(x) :])
        hits += int((np.abs(differences) >= seen * (1 - 1e-12)).sum())
    return (hits + 1) / (repetitions + 1)


def t_test_p(x: np.ndarray, value: float) -> float:
    """The two-sided p-value of a t test that the mean over these tasks is `value`.

    Its error is that of runs within their tasks (degrees of freedom by Welch and Satterthwaite): how tasks differ is no
    part of it, as it is none of a stratified bootstrap. NaN where a task has fewer than two runs.
    """
    runs = (~np.isnan(x)).sum(axis=0)
    if not runs.size or runs.min() < 2:
        return np.nan
    squares = np.nanvar(x, axis=0, ddof=1) / runs  # of the error of each task's mean
    distance = abs(float(mean(x)) - value)
    if not squares.any():
        return 0.0 if distance else 1.0
    freedom = squares.sum() ** 2 / (squares**2 / (runs - 1)).sum()
    return student_p(distance * len(runs) / float(np.sqrt(squares.sum())), float(freedom))


def student_p(t: float, freedom: float) -> float:
    """How likely Student's t is as far from zero as this; both sides.

    With t = sqrt(freedom) tan(a) its density is that of the angle, proportional to cos(a)**(freedom - 1).
    """
    begin = np.arctan(t / np.sqrt(freedom))
    tail, whole = (np.linspace(start, np.pi / 2, ANGLES) for start in (begin, 0.0))
    areas = [np.trapezoid(np.cos(angles).clip(0) ** (freedom - 1), angles) for angles in (tail, whole)]
    return float(areas[0] / areas[1])


def _exchanged(pooled: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Copies in which the runs of every task are in a random order; places without a run keep none."""
    keys = np.where(np.isnan(pooled), 2.0, rng.random((count, *pooled.shape)))
    shuffled = np.take_along_axis(pooled[None], np.argsort(keys, axis=1), axis=1)
    # The runs come first in the shuffled order: each goes to a place that had one.
    places = np.argsort(np.isnan(pooled), axis=0, kind="stable")
    out = np.full((count, *pooled.shape), np.nan)
    np.put_along_axis(out, np.broadcast_to(places, out.shape), shuffled, axis=1)
    return out


def holm(p_values: Sequence[float]) -> np.ndarray:
    """P-values corrected for having been tested together (Holm 1979); NaN stays NaN and is not counted."""
    p = np.asarray(p_values, float)
    corrected = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected


def pairwise(
    matrices: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
    rng: np.random.Generator,
    repetitions: int = REPETITIONS,
) -> list[Comparison]:
    """Every pair tested on the tasks that both have, with p-values corrected for all pairs."""
    found = [_tested(a, b, *common_tasks(matrices[a], matrices[b]), rng, repetitions) for a, b in pairs]
    corrected = holm([one.p for one in found])
    return [one._replace(p_holm=float(p)) for one, p in zip(found, corrected, strict=True)]


def _tested(a: str, b: str, x: np.ndarray, y: np.ndarray, rng: np.random.Generator, repetitions: int) -> Comparison:
    difference = interval((x, y), lambda u, v: mean(u) - mean(v), rng, repetitions)
    improvement = interval((x, y), probability_of_improvement, rng, repetitions)
    p = permutation_p(x, y, mean, rng) if min(len(x), len(y)) > 1 else np.nan
    return Comparison(a, b, difference, improvement, p, np.nan)


def common_tasks(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both matrices with only the tasks of which each has at least one run."""
    both = (~np.isnan(x)).any(axis=0) & (~np.isnan(y)).any(axis=0)
    return x[:, both], y[:, both]
