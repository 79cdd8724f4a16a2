"""SPR's loss, and the account that is kept of every step."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered
from headrace.engines.fast.kernels.vectors import ONE, ZERO, add_row, dot, fill
from headrace.engines.fast.native import move, part

SHORTEST = 1e-3  # a vector shorter than this counts as this long in a cosine


@ordered
def cosine_loss(f, guess, truth, slopes, count, width, weight, loss):
    """- weight sum_k cos(guess_k, truth_k), and its gradient with respect to the guesses."""
    total = 0.0
    for k in range(count):
        a, b = part(f, guess + k * width, width), part(f, truth + k * width, width)
        own, other, both = np.float64(dot(a, a)), np.float64(dot(b, b)), np.float64(dot(a, b))
        per_own, per_other = 1 / np.sqrt(larger(own, SHORTEST**2)), 1 / np.sqrt(larger(other, SHORTEST**2))
        total += both * per_own * per_other
        along_truth = np.float32(-f[weight] * per_own * per_other)
        along_guess = np.float32(f[weight] * both * per_other * per_own**3 if own > SHORTEST**2 else 0.0)
        out = part(f, slopes + k * width, width)
        for j in range(width):
            out[j] = along_truth * b[j] + along_guess * a[j]
    f[loss] = -f[weight] * total


@ordered
def larger(a, b):
    return a if a > b or a != a else b


@ordered
def root(f, s, square, out):
    """The norm from its square, which overflows where single precision does."""
    f[out] = np.sqrt(np.float32(s[square]))


@ordered
def overshoot(f, s, square, factor, out):
    """alpha ||grad Q||^2 / (1 - gamma lambda), of which `factor` is all but the norm."""
    f[out] = np.float32(s[square]) * f[factor]


@ordered
def size_of(f, a, out):
    f[out] = abs(f[a])


@ordered
def copy(f, source, out, size):
    move(f, out, source, size)


@ordered
def add(f, source, out, size):
    add_row(part(f, out, size), ONE, part(f, source, size))


@ordered
def zero(f, start, size):
    fill(part(f, start, size), ZERO)


@ordered
def clear(s, start, size):
    """Sets sums to zero."""
    fill(part(s, start, size), 0.0)


@ordered
def count_step(f, n, reward, last, episode_return, finished_return, episode_length, finished_length, step):
    """One more step; where the episode ended, how it went is put aside and the count begins anew."""
    n[step] += 1
    f[finished_return], n[finished_length] = f[episode_return] + f[reward], n[episode_length] + 1
    f[episode_return] = ZERO if n[last] != 0 else f[finished_return]
    n[episode_length] = 0 if n[last] != 0 else n[finished_length]


@ordered
def tally(f, n, values, sums, always, beside, active, order, watched, counts, step):
    """Adds a step's quantities up, those of the auxiliary where it learnt; notes the first that is not finite.

    `counts` are the steps, those on which the auxiliary learnt, and the step and number of the first bad quantity.
    """
    n[counts] += 1
    n[counts + 1] += n[active]
    if n[active] == 0:
        fill(part(f, values + always, beside), ZERO)
    for i in range(always + beside):
        f[sums + i] += f[values + i]
    if n[counts + 2] >= 0:
        return
    for i in range(watched):
        if not np.isfinite(f[values + n[order + i]]):
            n[counts + 2], n[counts + 3] = n[step], i
            return
