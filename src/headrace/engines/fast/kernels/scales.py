"""Running scales of observations and rewards, as `headrace.normalize` defines them, in one pass."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import exact, ordered
from headrace.engines.fast.kernels.vectors import ONE, ZERO
from headrace.engines.fast.native import move, part

EPS = np.float32(1e-8)


@exact
def two_sum(high, rest, x):
    """(high + rest) + x as such a pair again."""
    total = high + x
    shadow = total - high
    lost = (high - (total - shadow)) + (x - shadow)
    rest = rest + lost
    renewed = total + rest
    return renewed, rest - (renewed - total)


@exact
def standardise(f, n, raw, moments, count, out, size):
    """Takes an observation into the moments (mean, its rest, squares, their rest), then standardises it by them."""
    n[count] += 1
    samples = np.float32(n[count])
    divisor = np.float32(n[count] - 1) if n[count] >= 2 else ONE
    x, y = part(f, raw, size), part(f, out, size)
    means, mean_rests = part(f, moments, size), part(f, moments + size, size)
    squares, square_rests = part(f, moments + 2 * size, size), part(f, moments + 3 * size, size)
    enough = n[count] >= 2
    for j in range(size):
        before = (x[j] - means[j]) - mean_rests[j]
        mean, mean_rest = two_sum(means[j], mean_rests[j], before / samples)
        after = (x[j] - mean) - mean_rest
        square, square_rest = two_sum(squares[j], square_rests[j], before * after)
        variance = (square + square_rest) / divisor if enough else ONE
        y[j] = after / np.sqrt(variance + EPS)
        means[j], mean_rests[j], squares[j], square_rests[j] = mean, mean_rest, square, square_rest


@exact
def standardise_frozen(f, n, raw, moments, count, out, size):
    """Standardises an observation by moments that stay as they are."""
    enough = n[count] >= 2
    divisor = np.float32(n[count] - 1) if enough else ONE
    for j in range(size):
        centred = (f[raw + j] - f[moments + j]) - f[moments + size + j]
        squares = f[moments + 2 * size + j] + f[moments + 3 * size + j]
        variance = squares / divisor if enough else ONE
        f[out + j] = centred / np.sqrt(variance + EPS)


@exact
def scale_reward(f, n, reward, discounted, moments, count, last, gamma, out):
    """u <- gamma (1 - last) u + r; the reward over the deviation of u."""
    u = ZERO if n[last] != 0 else f[gamma] * f[discounted]
    f[discounted] = u + f[reward]
    standardise(f, n, discounted, moments, count, out, 1)
    variance = ONE
    if n[count] >= 2:
        variance = (f[moments + 2] + f[moments + 3]) / np.float32(n[count] - 1)
    f[out] = f[reward] / np.sqrt(variance + EPS)


@exact
def limit(f, x, size, most):
    """Clips a stretch to [-most, most]."""
    for j in range(x, x + size):
        f[j] = f[most] if f[j] > f[most] else -f[most] if f[j] < -f[most] else f[j]


@exact
def is_finite(f, start, size):
    """Whether all numbers of a stretch are finite: anything else times zero is not a number."""
    total = ZERO
    for j in range(start, start + size):
        total += f[j] * ZERO
    return total == ZERO


@ordered
def stack(f, obs, frame, out, pixels, channels, new):
    """The observation after `obs`: its oldest frame goes, the new one (of `new` channels) comes last."""
    size, first = pixels * channels, channels - new
    move(f, out, obs + new, size - new)  # every channel one frame back, and the last ones whatever comes after
    for p in range(pixels):
        for k in range(new):
            f[out + p * channels + first + k] = f[frame + p * new + k]


@ordered
def stack_first(f, frame, out, pixels, channels, new):
    """An episode's first observation: its first frame, as often as frames are stacked."""
    for p in range(pixels):
        for start in range(0, channels, new):
            move(f, out + p * channels + start, frame + p * new, new)
