"""Running scales of observations and rewards, exact for as long as a stream lasts.

A mean kept in one float32 stops moving near 1e7 samples. Here every statistic is the unevaluated sum of two float32
numbers, which carries about 48 bits: as good as float64 for this purpose, and the same on every accelerator.
The functions work on NumPy arrays and on JAX arrays alike, and contain no branch.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from headrace.agents.observations import Limited, Unlimited

EPS = 1e-8


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of all samples so far, element by element."""

    count: Any  # int32: exact up to 2e9
    mean: Any
    mean_rest: Any
    squares: Any
    squares_rest: Any


class RewardScale(NamedTuple):
    moments: Moments
    discounted: Any  # u


def empty_moments(shape: tuple[int, ...], xp: Any = np) -> Moments:
    # Five arrays of their own: a compiled program that updates its state in place must not be given one twice.
    return Moments(xp.zeros((), xp.int32), *(xp.zeros(shape, xp.float32) for _ in range(4)))


def empty_reward_scale(xp: Any = np) -> RewardScale:
    return RewardScale(empty_moments((), xp), xp.zeros((), xp.float32))


def _add(high: Any, rest: Any, x: Any) -> tuple[Any, Any]:
    """(high + rest) + x as such a pair again: what rounding takes from the sum is kept (Knuth's two-sum)."""
    total = high + x
    shadow = total - high
    lost = (high - (total - shadow)) + (x - shadow)
    rest = rest + lost
    renewed = total + rest
    return renewed, rest - (renewed - total)


def include(moments: Moments, sample: Any) -> Moments:
    """Welford's update with one more sample."""
    count = moments.count + 1
    before = (sample - moments.mean) - moments.mean_rest
    mean, mean_rest = _add(moments.mean, moments.mean_rest, before / count.astype(np.float32))
    after = (sample - mean) - mean_rest
    squares, squares_rest = _add(moments.squares, moments.squares_rest, before * after)
    return Moments(count, mean, mean_rest, squares, squares_rest)


def variance(moments: Moments, xp: Any = np) -> Any:
    """With n - 1; 1 while there are fewer than two samples."""
    enough = moments.count >= 2
    divisor = xp.where(enough, moments.count - 1, 1).astype(np.float32)
    return xp.where(enough, (moments.squares + moments.squares_rest) / divisor, np.float32(1))


def standardised(moments: Moments, x: Any, xp: Any = np) -> Any:
    """(x - mean) / sqrt(var + eps)."""
    return ((x - moments.mean) - moments.mean_rest) / xp.sqrt(variance(moments, xp) + np.float32(EPS))


@singledispatch
def limited(rule: Any, x: Any, xp: Any = np) -> Any:
    """What an agent is given of a standardised observation."""
    raise TypeError(f"no way to limit observations by {rule!r}")


@limited.register
def _(rule: Unlimited, x: Any, xp: Any = np) -> Any:
    return x


@limited.register
def _(rule: Limited, x: Any, xp: Any = np) -> Any:
    return xp.clip(x, -rule.limit, rule.limit)


def include_reward(scale: RewardScale, reward: Any, ended: Any, gamma: Any) -> RewardScale:
    """u <- gamma (1 - ended) u + r, and the moments with the new u."""
    discounted = (gamma * (1 - ended) * scale.discounted + reward).astype(np.float32)
    return RewardScale(include(scale.moments, discounted), discounted)


def scaled_reward(scale: RewardScale, reward: Any, xp: Any = np) -> Any:
    """r / sqrt(var(u) + eps): scaled, never shifted."""
    return reward / xp.sqrt(variance(scale.moments, xp) + np.float32(EPS))
