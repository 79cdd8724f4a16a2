"""When runs decide a claim: a bootstrap interval and a test have to agree.

With three seeds a percentile interval is too narrow to be trusted alone; the test alone says nothing of the size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.analysis.comparison import permutation_p, t_test_p
from headrace.analysis.stats import Interval, interval, mean

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not enough runs"
LEVEL = 0.05  # of the tests, not corrected: each claim is judged by itself


class Bounded(NamedTuple):
    """A number with its interval, and the p-value of a test against a bound."""

    found: Interval
    bound: float
    p: float  # two-sided

    @property
    def above(self) -> bool:
        return self.p < LEVEL and self.found.low > self.bound

    @property
    def below(self) -> bool:
        return self.p < LEVEL and self.found.high < self.bound


def difference(x: np.ndarray, y: np.ndarray, bound: float, rng: np.random.Generator) -> Bounded:
    """The mean over tasks of x less that of y; runs are exchanged between y and an x that is moved by the bound."""
    found = interval((x, y), lambda a, b: mean(a) - mean(b), rng)
    return Bounded(found, bound, permutation_p(x - bound, y, mean, rng))


def level(x: np.ndarray, bounds: Sequence[float], rng: np.random.Generator) -> list[Bounded]:
    """The mean over tasks of x against each of the bounds, which is no other agent's: a t test over its runs."""
    found = interval(x, mean, rng)
    return [Bounded(found, bound, t_test_p(x, bound)) for bound in bounds]


def is_above(one: Bounded) -> str:
    """The verdict on the claim that a number is above its bound."""
    return HOLDS if one.above else FAILS if one.below else UNKNOWN


def is_between(low: Bounded, high: Bounded) -> str:
    """The verdict on the claim that a number lies between two bounds."""
    if low.above and high.below:
        return HOLDS
    return FAILS if low.below or high.above else UNKNOWN


def chance(p: float) -> str:
    """A p-value in words."""
    if math.isnan(p):
        return "no test"
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
