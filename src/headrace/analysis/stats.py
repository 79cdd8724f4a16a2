"""Aggregates of scores over runs and tasks (Agarwal et al. 2021) with stratified-bootstrap intervals, and tests.

A score matrix is (runs x tasks); NaN marks a run that is not there. With no NaN every number equals the published
definition; with some, each task counts the runs it has. All randomness comes from the generator that is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

REPETITIONS = 2000  # of a bootstrap
CONFIDENCE = 0.95
FEWEST = 3  # runs of a task for an interval: a bootstrap of two draws little but those two
BLOCK = 1 << 22  # numbers held at once while a bootstrap resamples

Statistic = Callable[[np.ndarray], np.ndarray]  # (..., runs, tasks) -> (...)
PERMUTATIONS = 4999
ANGLES = 20_001  # at which the density of Student's t is summed


class Interval(NamedTuple):
    """A number with its bootstrap interval."""

    value: float
    low: float
    high: float


def task_means(scores: np.ndarray) -> np.ndarray:
    """The mean over runs of every task; NaN for a task without runs."""
    present = ~np.isnan(scores)
    count = present.sum(axis=-2)
    total = np.where(present, scores, 0.0).sum(axis=-2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def mean(scores: np.ndarray) -> np.ndarray:
    """The mean over tasks of the tasks' means."""
    return _nan_mean(task_means(scores))


def median(scores: np.ndarray) -> np.ndarray:
    """The median over tasks of the tasks' means."""
    return _nan_quantile_mean(np.sort(task_means(scores), axis=-1))


def iqm(scores: np.ndarray) -> np.ndarray:
    """The mean of the middle half of all scores: a quarter of them, rounded down, is cut off at either end."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN sorts last
    count = (~np.isnan(flat)).sum(axis=-1, keepdims=True)
    cut = count // 4
    place = np.arange(flat.shape[-1])
    kept = (place >= cut) & (place < count - cut)
    return _ratio(np.where(kept, flat, 0.0).sum(axis=-1), kept.sum(axis=-1))


def optimality_gap(scores: np.ndarray) -> np.ndarray:
    """By how much scores fall short of 1 on average; what exceeds it counts as reaching it."""
    return 1.0 - _nan_mean(np.minimum(scores, 1.0).reshape(*scores.shape[:-2], -1))


AGGREGATES: dict[str, Statistic] = {"mean": mean, "median": median, "iqm": iqm, "optimality_gap": optimality_gap}


def _nan_mean(values: np.ndarray) -> np.ndarray:
    present = ~np.isnan(values)
    return _ratio(np.where(present, values, 0.0).sum(axis=-1), present.sum(axis=-1))


def _nan_quantile_mean(ordered: np.ndarray) -> np.ndarray:
    """The median of sorted values, those that are not NaN."""
    count = (~np.isnan(ordered)).sum(axis=-1, keepdims=True)
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    high = np.where(count > 0, high, 0)
    pair = np.take_along_axis(ordered, low, -1) + np.take_along_axis(ordered, high, -1)
    return pair[..., 0] / 2


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def probability_of_improvement(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The mean over tasks of P(a run of x scores above a run of y), ties counting half."""
    return _nan_mean(_improvement_by_task(x, y))


def _improvement_by_task(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    ours, theirs = x[..., :, None, :], y[..., None, :, :]
    both = ~(np.isnan(ours) | np.isnan(theirs))
    better = np.where(both, np.heaviside(np.where(both, ours - theirs, 0.0), 0.5), 0.0)
    return _ratio(better.sum(axis=(-3, -2)), both.sum(axis=(-3, -2)))


def profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The share of runs above each threshold, averaged over tasks: the score distribution as (..., thresholds)."""
    above = np.where(np.isnan(scores), np.nan, 0.0)[..., None, :, :] + (
        scores[..., None, :, :] > np.asarray(thresholds)[:, None, None]
    )
    return _nan_mean(task_means(above))


def resampled(scores: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` matrices like `scores`, the runs of every task drawn anew with replacement from that task's own."""
    runs, tasks = scores.shape
    order = np.argsort(np.isnan(scores), axis=0, kind="stable")
    packed = np.take_along_axis(scores, order, axis=0)  # the runs there are first
    present = (~np.isnan(scores)).sum(axis=0)
    drawn = (rng.random((count, runs, tasks)) * np.maximum(present, 1)).astype(np.int64)
    found = np.take_along_axis(packed[None], drawn, axis=1)
    return np.where(np.arange(runs)[:, None] < present, found, np.nan)


def bootstrap(
    scores: Sequence[np.ndarray],
    statistic: Callable[..., np.ndarray],
    rng: np.random.Generator,
    repetitions: int = REPETITIONS,
) -> np.ndarray:
    """The statistic of each of `repetitions` stratified resamples, every matrix resampled on its own."""
    held = max(1, sum(m.size for m in scores)) * 8
    block = max(1, min(repetitions, BLOCK // held))
    sizes = [min(block, repetitions - done) for done in range(0, repetitions, block)]
    return np.concatenate([statistic(*(resampled(m, size, rng) for m in scores)) for size in sizes])


def interval(
    scores: np.ndarray | Sequence[np.ndarray],
    statistic: Callable[..., np.ndarray],
    rng: np.random.Generator,
    repetitions: int = REPETITIONS,
) -> Interval:
    """The statistic with its percentile interval; without an interval where no task has three runs."""
    matrices = [scores] if isinstance(scores, np.ndarray) else list(scores)
    value = float(statistic(*matrices))
    if not any((~np.isnan(m)).sum(axis=0).max(initial=0) >= FEWEST for m in matrices):
        return Interval(value, np.nan, np.nan)
    low, high = percentiles(bootstrap(matrices, statistic, rng, repetitions))
    return Interval(value, float(low), float(high))


def percentiles(found: np.ndarray) -> np.ndarray:
    """The ends of the interval that holds so much of what was found."""
    tail = 50 * (1 - CONFIDENCE)
    return np.percentile(found, [tail, 100 - tail], axis=0)


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
