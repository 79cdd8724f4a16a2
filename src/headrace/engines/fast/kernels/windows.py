"""The few transitions that SPR looks back on, and random views of their images."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import exact, ordered
from headrace.engines.fast.kernels.vectors import ONE
from headrace.engines.fast.native import move, part

EPISODE, RING = range(2)
ALWAYS, EVERY, GREEDY = range(3)

# Giles (2010): the inverse error function as polynomials in w = -log(1 - x^2), near the middle and in the tails.
MIDDLE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
TAILS = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


@exact
def look(
    n, kind, gate, every, horizon, ring, size, ring_actions, head, held, obs, next_obs, action, greedy, step,
    images, actions, active, resting,
):  # fmt: skip
    """Where the images and actions in sight lie, the present ones among them, and whether they suffice to learn.

    Nothing is stored yet: what a step looks at is known before the environment answers.
    """
    slots = horizon if kind == EPISODE else horizon + 1
    open_now = gate == ALWAYS or (gate == EVERY and n[step] % n[every] == 0) or (gate == GREEDY and n[greedy] != 0)
    if kind == EPISODE:
        ready = n[held] >= horizon - 1
        for k in range(horizon - 1):
            slot = (n[head] + 1 + k) % slots
            n[images + k] = ring + slot * size
            n[actions + k] = n[ring_actions + slot]
        n[images + horizon - 1], n[images + horizon] = obs, next_obs
        n[actions + horizon - 1] = n[action]
    else:
        at = n[held] % slots
        ready = at == slots - 2 and n[held] >= slots
        for k in range(slots):
            n[images + k] = obs if k == at else ring + k * size
        for k in range(horizon):
            n[actions + k] = n[action] if k == at else n[ring_actions + k]
    n[active] = 1 if open_now and ready else 0
    n[resting] = 1 - n[active]


@ordered
def push(f, n, kind, horizon, ring, size, ring_actions, head, held, obs, action, last):
    """Stores the present observation and action; an episode's window is emptied where the episode ended."""
    if kind == EPISODE:
        slot = n[head]
        n[head] = (slot + 1) % horizon
        n[held] = 0 if n[last] != 0 else min(n[held] + 1, horizon)
    else:
        slots = horizon + 1
        slot = n[held] % slots
        n[held] = slots if n[held] + 1 >= 2 * slots else n[held] + 1
    move(f, ring + slot * size, obs, size)
    n[ring_actions + slot] = n[action]


@exact
def normal(uniform):
    """The normal number of the same probability as a uniform one, clipped to -2 .. 2."""
    if uniform <= 0:  # where the number is infinite, and the polynomials below none at all
        return np.float32(-2)
    x = np.float32(2) * uniform - ONE
    w = -np.log1p(-np.float64(x) * x)
    central = w < 5.0
    w = w - 2.5 if central else np.sqrt(w) - 3.0
    p = 0.0
    for i in range(9):
        p = p * w + (MIDDLE[i] if central else TAILS[i])
    return np.float32(min(max(np.sqrt(2.0) * p * x, -2.0), 2.0))


@exact
def offset(uniform, shift):
    """A whole number, uniform in -shift .. shift."""
    return min(np.int64(uniform * np.float32(2 * shift + 1)), 2 * shift) - shift


@ordered
def augment(f, n, image, out, draws, height, width, channels, shift, intensity, clip, low, high):
    """One image, moved with its edges repeated, times a factor, clipped where `clip` says so."""
    source, factor = n[image], ONE + f[intensity] * normal(f[draws + 2])
    down, right = offset(f[draws], n[shift]), offset(f[draws + 1], n[shift])
    first, last = min(max(-right, 0), width), max(min(width - right, width), 0)
    for r in range(height):
        row = source + min(max(r + down, 0), height - 1) * width * channels
        to = out + r * width * channels
        left_edge, right_edge = row, row + (width - 1) * channels
        for c in range(first):
            scaled_copy(part(f, to + c * channels, channels), part(f, left_edge, channels), factor)
        if last > first:
            start, length = row + (first + right) * channels, (last - first) * channels
            scaled_copy(
                part(f, to + first * channels, channels * last + -1 * channels * first), part(f, start, length), factor
            )
        for c in range(max(last, first), width):
            scaled_copy(part(f, to + c * channels, channels), part(f, right_edge, channels), factor)
    if clip:
        for j in range(out, out + height * width * channels):
            f[j] = f[low] if f[j] < f[low] else f[high] if f[j] > f[high] else f[j]


@ordered
def scaled_copy(out, source, factor):
    for j in range(out.size):
        out[j] = source[j] * factor
