"""Modules whose gradients are written out: traces, inner products and the update, each in one pass."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered, summing
from headrace.engines.fast.kernels.directions import (
    C_KEEP,
    C_TAKE,
    DIRECTIONS,
    E_KEEP,
    E_TAKE,
    M_KEEP,
    M_TAKE,
    M_TAKE_E,
    C,
    E,
    G,
    M,
    U,
    Z,
)
from headrace.engines.fast.kernels.rows import follow_all_block, follow_decaying_block, follow_trace_block
from headrace.engines.fast.kernels.vectors import BLOCK, ONE, ZERO, add_row, dot, fill, long_dot, renew
from headrace.engines.fast.native import part


@summing
def sum_of_sizes(z, g, keep):
    """||keep z + g||_1, nothing being changed."""
    total = ZERO
    for j in range(g.size):
        total += abs(keep * z[j] + g[j])
    return total


@ordered
def trace_size(f, s, z, g, size, keep, out):
    """Adds ||keep z + g||_1 to `out`; where keep is 0, z is not looked at."""
    total, trace = 0.0, g if f[keep] == ZERO else z
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        total += sum_of_sizes(part(f, trace + start, length), part(f, g + start, length), f[keep])
    s[out] += total


@ordered
def follow_trace(f, s, z, g, v, u, size, keep, terms, square):
    """z <- keep z + g; u = terms . (z, g, v), its squared norm added to `square`. Negative offsets are absent."""
    kept, along_z, along_g, total = f[keep], f[terms], f[terms + 1], 0.0
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        new, update = part(f, g + start, length), part(f, u + start, length)
        trace = part(f, z + start, length) if z >= 0 else new
        if z >= 0:
            follow(trace, kept, new)
        for j in range(length):
            update[j] = along_z * trace[j] + along_g * new[j]
        if v >= 0:
            add_row(update, f[terms + 2], part(f, v + start, length))
        total += dot(update, update)
    s[square] += total


@ordered
def follow(trace, kept, new):
    """trace <- kept trace + new; where nothing is kept, the trace is not looked at."""
    if kept == ZERO:
        for j in range(trace.size):
            trace[j] = new[j]
    else:
        for j in range(trace.size):
            trace[j] = kept * trace[j] + new[j]


@ordered
def follow_alone(f, s, w, z, g, v, size, keep, terms, square):
    """As `follow_trace` and `update` in one, where only the RL update moves the weights; z and v may be absent."""
    at, total, kept, a, b = f.ctypes.data, 0.0, f[keep], f[terms], f[terms + 1]
    along_trace = v < 0 and b == ZERO
    if z < 0:
        add_row(part(f, w, size), a, part(f, g, size))
        s[square] += long_dot(f, g, g, size) * a * a
        return
    if kept == ZERO:
        fill(part(f, z, size), ZERO)
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        weights, trace, gradient = at + 4 * (w + start), at + 4 * (z + start), at + 4 * (g + start)
        if along_trace:
            total += follow_trace_block(weights, trace, gradient, 0, length, kept, ZERO, ZERO, ZERO, a)
        else:
            value, c = (at + 4 * (v + start), f[terms + 2]) if v >= 0 else (gradient, ZERO)
            total += follow_all_block(weights, trace, gradient, value, length, kept, a, b, c, ONE)
    s[square] += total * a * a if along_trace else total


@ordered
def squared_norm(f, s, a, size, out):
    """Adds ||a||^2 to `out`."""
    s[out] += long_dot(f, a, a, size)


@ordered
def guard(f, s, square, longest, kept, acted, factor):
    """The factor that makes a gradient at most `longest` long; `kept` is the squared norm that it then has."""
    length, most = np.sqrt(np.float32(s[square])), f[longest]
    acts = length > most
    f[factor] = most / length if acts else ONE
    s[kept] = np.float64(most) ** 2 if acts else s[square]
    if acts:
        s[acted] = 1.0


@ordered
def shorten(f, a, size, factor):
    """a <- factor a."""
    if f[factor] != ONE:
        stretch = part(f, a, size)
        for j in range(size):
            stretch[j] *= f[factor]


@summing
def squared_difference(a, b):
    total = ZERO
    for j in range(a.size):
        total += (a[j] - b[j]) * (a[j] - b[j])
    return total


@ordered
def squared_distance(f, s, a, b, size, out):
    """Adds ||a - b||^2 to `out`."""
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        s[out] += squared_difference(part(f, a + start, length), part(f, b + start, length))


@ordered
def bound(f, s, n, square, longest, factor, acts):
    """Whether a step is longer than `longest`, and the factor that makes it that long."""
    length = np.sqrt(np.float32(s[square]))
    n[acts] = 1 if length > f[longest] else 0
    f[factor] = f[longest] / length if n[acts] != 0 else ONE


@ordered
def draw_back(f, w, before, size, factor):
    """w <- before + factor (w - before)."""
    now, old = part(f, w, size), part(f, before, size)
    for j in range(size):
        now[j] = old[j] + f[factor] * (now[j] - old[j])


@ordered
def products(f, s, n, gram, active, mask, mask_at_rest, size, u, g, c, e, m, z):
    """The inner products of the pairs of directions that the mask asks for; all of a stretch while it is near."""
    wanted = mask if n[active] != 0 else mask_at_rest
    places = (u, g, c, e, m, z)
    for i in range(DIRECTIONS):
        for j in range(i, DIRECTIONS):
            if wanted >> (DIRECTIONS * i + j) & 1:
                s[gram + DIRECTIONS * i + j] = 0.0
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        for i in range(DIRECTIONS):
            for j in range(i, DIRECTIONS):
                if wanted >> (DIRECTIONS * i + j) & 1:
                    some = dot(part(f, places[i] + start, length), part(f, places[j] + start, length))
                    s[gram + DIRECTIONS * i + j] += some
    for i in range(DIRECTIONS):
        for j in range(i, DIRECTIONS):
            if wanted >> (DIRECTIONS * i + j) & 1:
                value = np.float32(s[gram + DIRECTIONS * i + j])
                s[gram + DIRECTIONS * i + j] = value
                s[gram + DIRECTIONS * j + i] = value


@ordered
def update(f, n, active, coefficients, size, w, u, g, c, e, m, z):
    """Moves the weights along all directions, then C, E and M on; negative offsets are absent."""
    k, learns = part(f, coefficients, C_KEEP + 7), n[active] != 0
    for start in range(0, size, BLOCK):
        update_block(f, k, learns, start, min(BLOCK, size - start), w, u, g, c, e, m, z)


@ordered
def update_block(f, k, learns, start, size, w, u, g, c, e, m, z):
    """As `update`, for a stretch that stays near meanwhile."""
    weights = part(f, w + start, size)
    if u >= 0:
        add_row(weights, k[U], part(f, u + start, size))
    if z >= 0 and k[Z] != ZERO:
        add_row(weights, k[Z], part(f, z + start, size))
    if g >= 0 and learns:
        add_row(weights, k[G], part(f, g + start, size))
    if c >= 0 and learns:
        past = part(f, c + start, size)
        add_row(weights, k[C], past)
        renew(past, k[C_KEEP], k[C_TAKE], part(f, g + start, size))
    if e >= 0 and k[E] != ZERO:
        add_row(weights, k[E], part(f, e + start, size))
    if m >= 0:
        average = part(f, m + start, size)
        if k[M] != ZERO:
            add_row(weights, k[M], average)
        renew(average, k[M_KEEP], k[M_TAKE], part(f, u + start, size))
        if e >= 0:
            add_row(average, k[M_TAKE_E], part(f, e + start, size))
    if e >= 0:
        renew(part(f, e + start, size), k[E_KEEP], k[E_TAKE], part(f, u + start, size))


@ordered
def decay(f, s, w, z, g, size, keep, terms, rate, square):
    """QRC's second network: z <- keep z + g, u = terms . (z, g) - rate w, w <- w + u, with ||u||^2 to `square`."""
    at, total, kept = f.ctypes.data, 0.0, f[keep]
    if kept == ZERO:
        fill(part(f, z, size), ZERO)
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        weights, trace, gradient = at + 4 * (w + start), at + 4 * (z + start), at + 4 * (g + start)
        total += follow_decaying_block(weights, trace, gradient, 0, length, kept, f[terms], f[terms + 1], f[rate], ONE)
    s[square] += total
