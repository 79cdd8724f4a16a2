"""Dense layers too large to write their gradients out: those are outer products, made row by row on the way.

A layer is (inputs, outputs) with its bias as the last row. Its RL gradients are x d^T (of Q(s, a)) and x' d'^T (of
max Q(s')), its auxiliary gradient a sum of `count` outer products.
"""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered
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
from headrace.engines.fast.kernels.rows import (
    FIVE,
    follow_all_row,
    follow_all_with_five,
    follow_all_with_new,
    follow_decaying_row,
    follow_trace_row,
    follow_trace_with_five,
    follow_trace_with_new,
    history_1,
    history_2,
    history_and_trace,
    move_by_five,
    move_by_five_new,
)
from headrace.engines.fast.kernels.vectors import ONE, ZERO, add_row, dot, fill, long_dot, renew
from headrace.engines.fast.kernels.ways import sizes_1, sizes_4, through_1, through_4
from headrace.engines.fast.native import part


@ordered
def outer_trace_size(f, s, z, x, d, inputs, outputs, keep, out):
    """Adds ||keep z + x d^T||_1 to `out`, nothing being changed.

    Where keep is 0, z is not looked at; the sum is then that of a trace that is zero, to the bit.
    """
    kept, total, at = f[keep], 0.0, f.ctypes.data
    first, step = (d, 0) if kept == ZERO else (z, outputs)
    slopes, whole = at + 4 * d, inputs - inputs % 4
    for i in range(0, whole, 4):
        total += sizes_4(at + 4 * (first + i * step), step, at + 4 * (x + i), slopes, outputs, kept)
    for i in range(whole, inputs):
        total += sizes_1(at + 4 * (first + i * step), step, at + 4 * (x + i), slopes, outputs, kept)
    s[out] += total


@ordered
def outer_squared_norm(f, s, x, d, count, inputs, outputs, out):
    """Adds ||sum_k x_k d_k^T||^2 to `out`: the sum over k, m of (x_k . x_m) (d_k . d_m)."""
    total = 0.0
    for k in range(count):
        for m in range(k + 1):
            rows = long_dot(f, x + k * inputs, x + m * inputs, inputs)
            columns = long_dot(f, d + k * outputs, d + m * outputs, outputs)
            total += rows * columns * (1.0 if k == m else 2.0)
    s[out] += total


@ordered
def gradient_row(g, f, x, d, count, inputs, i):
    """g <- row i of sum_k x_k d_k^T."""
    m = g.size
    fill(g, ZERO)
    for k in range(count):
        add_row(g, f[x + k * inputs + i], part(f, d + k * m, m))


@ordered
def trace_row(out, z, x, d, keep):
    """out <- keep z + x d; where keep is 0, z is not looked at."""
    if keep == ZERO:
        for j in range(out.size):
            out[j] = x * d[j]
    else:
        for j in range(out.size):
            out[j] = keep * z[j] + x * d[j]


@ordered
def update_row(u, z, x, d, x_value, d_value, along_z, along_g, along_v):
    """u <- along_z z + along_g x d + along_v x' d'."""
    of_g, of_v = along_g * x, along_v * x_value
    for j in range(u.size):
        u[j] = along_z * z[j] + of_g * d[j] + of_v * d_value[j]


@ordered
def asks_for(mask, direction):
    """Whether a mask of pairs has one with this direction in it."""
    found = False
    for other in range(DIRECTIONS):
        low, high = min(direction, other), max(direction, other)
        found |= (mask >> (DIRECTIONS * low + high)) & 1 != 0
    return found


HISTORY_ONLY = (1 << (DIRECTIONS * G + C)) | (1 << (DIRECTIONS * C + C))  # what orth on the auxiliary stream needs


@ordered
def history_products(f, s, gram, inputs, outputs, x, d, c, found):
    """g . c and c . c of a gradient of five outer products, in one pass; `found` is room for two numbers."""
    at, both, own, half = f.ctypes.data, 0.0, 0.0, inputs // 2
    for i in range(half):  # in both halves of the layer: memory gives more to two who read far from each other
        history_2(at + 4 * (c + i * outputs), at + 4 * (x + i), inputs, at + 4 * d, outputs, half, at + 4 * found)
        both, own = both + f[found], own + f[found + 1]
    for i in range(2 * half, inputs):
        history_1(at + 4 * (c + i * outputs), at + 4 * (x + i), inputs, at + 4 * d, outputs, 0, at + 4 * found)
        both, own = both + f[found], own + f[found + 1]
    s[gram + DIRECTIONS * G + C] += both
    s[gram + DIRECTIONS * C + C] += own


HISTORY_AND_TRACE = HISTORY_ONLY | sum(1 << (DIRECTIONS * i + Z) for i in (G, C, Z))  # and orth2 against the trace


@ordered
def history_and_trace_products(f, s, gram, inputs, outputs, x_aux, d_aux, c, z, keep, x, d, found):
    """g . c, c . c, g . z, c . z and z . z, where z is the new trace, in one pass; `found` is room for five numbers.

    Where the trace begins anew, the old one is not looked at.
    """
    at = f.ctypes.data
    kept = f[keep] if z >= 0 else ZERO
    first, step = (d, 0) if kept == ZERO else (z, outputs)
    by_c, own_c, by_z, between, own_z = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(inputs):
        history_and_trace(
            at + 4 * (c + i * outputs), at + 4 * (x_aux + i), inputs, at + 4 * d_aux, outputs,
            at + 4 * (first + i * step), at + 4 * (x + i), at + 4 * d, kept, at + 4 * found,
        )  # fmt: skip
        by_c, own_c, by_z = by_c + f[found], own_c + f[found + 1], by_z + f[found + 2]
        between, own_z = between + f[found + 3], own_z + f[found + 4]
    s[gram + DIRECTIONS * G + C] += by_c
    s[gram + DIRECTIONS * C + C] += own_c
    s[gram + DIRECTIONS * G + Z] += by_z
    s[gram + DIRECTIONS * C + Z] += between
    s[gram + DIRECTIONS * Z + Z] += own_z


@ordered
def outer_products(
    f, s, n, gram, active, mask, mask_at_rest, inputs, outputs, z, keep, x, d, x_value, d_value, terms,
    x_aux, d_aux, count, c, e, m, rows,
):  # fmt: skip
    """The inner products of the pairs of directions that the mask asks for, in one pass. `rows` is room for three."""
    wanted = mask if n[active] != 0 else mask_at_rest
    if wanted == 0:
        return
    if wanted == HISTORY_ONLY and count == FIVE:
        history_products(f, s, gram, inputs, outputs, x_aux, d_aux, c, rows)
        mirror(s, gram)
        return
    if wanted == HISTORY_AND_TRACE and count == FIVE:
        history_and_trace_products(f, s, gram, inputs, outputs, x_aux, d_aux, c, z, keep, x, d, rows)
        mirror(s, gram)
        return
    needs_g, needs_td = asks_for(wanted, G), asks_for(wanted, U) or asks_for(wanted, Z)
    for i in range(inputs):
        at = i * outputs
        u_row, g_row, z_row = (
            part(f, rows, outputs),
            part(f, rows + outputs, outputs),
            part(f, rows + 2 * outputs, outputs),
        )
        if needs_g:
            gradient_row(g_row, f, x_aux, d_aux, count, inputs, i)
        if needs_td:
            slopes, from_value = part(f, d, outputs), f[x_value + i] if x_value >= 0 else ZERO
            trace = part(f, z + at, outputs) if z >= 0 else slopes
            trace_row(z_row, trace, f[x + i], slopes, f[keep] if z >= 0 else ZERO)
            value = part(f, d_value, outputs) if x_value >= 0 else slopes
            update_row(u_row, z_row, f[x + i], slopes, from_value, value, f[terms], f[terms + 1], f[terms + 2])
        places = (rows, rows + outputs, c + at, e + at, m + at, rows + 2 * outputs)
        for p in range(DIRECTIONS):
            for q in range(p, DIRECTIONS):
                if wanted >> (DIRECTIONS * p + q) & 1:
                    one, other = places[p], places[q]
                    s[gram + DIRECTIONS * p + q] += dot(part(f, one, outputs), part(f, other, outputs))
    mirror(s, gram)


@ordered
def mirror(s, gram):
    """The lower half of a table of inner products from the upper one, all rounded as sums in single precision are."""
    for p in range(DIRECTIONS):
        for q in range(p, DIRECTIONS):
            rounded = np.float32(s[gram + DIRECTIONS * p + q])
            s[gram + DIRECTIONS * p + q] = rounded
            s[gram + DIRECTIONS * q + p] = rounded


NOTHING, ALONG_TRACE, ALONG_ALL, STEP_BY_STEP = range(4)  # how the RL update moves a row


@ordered
def way_of_td(x_value, d, along_g, by_z, e, m):
    if d < 0:
        return NOTHING
    if e >= 0 or m >= 0:
        return STEP_BY_STEP
    if x_value < 0 and along_g == ZERO:
        return ALONG_TRACE
    return ALONG_ALL if by_z == ZERO else STEP_BY_STEP


@ordered
def outer_update(
    f, s, n, active, coefficients, inputs, outputs, w, z, keep, x, d, x_value, d_value, terms, x_aux, d_aux, count,
    c, e, m, rows, square, x_next, y,
):  # fmt: skip
    """Moves trace, weights, C, E and M of a layer on, and sends the next input through it, all in one pass.

    Negative offsets are absent. The squared norm of the RL update is added to `square`.
    """
    k, total, at, kept = part(f, coefficients, C_KEEP + 7), 0.0, f.ctypes.data, f[keep]
    learns = n[active] != 0 and count > 0
    a, b, by = f[terms], f[terms + 1], k[U] * f[terms] + k[Z]
    x_other, d_other, v = (x_value, d_value, f[terms + 2]) if x_value >= 0 else (x, d, ZERO)
    way = way_of_td(x_value, d, b, k[Z], e, m)
    joined = learns and count == FIVE and way in (ALONG_TRACE, ALONG_ALL)
    if y >= 0:
        fill(part(f, y, outputs), ZERO)
    for i in range(inputs):
        row = i * outputs
        trace = z + row if z >= 0 else rows + 2 * outputs
        if d >= 0 and (kept == ZERO or z < 0):
            fill(part(f, trace, outputs), ZERO)
        weights, traces, own, slopes = at + 4 * (w + row), at + 4 * trace, at + 4 * (x + i), at + 4 * d
        value, value_slopes = at + 4 * (x_other + i), at + 4 * d_other
        if joined:
            total += follow_with_five(
                way, weights, traces, own, slopes, value, value_slopes, kept, a, b, v, by, k, c >= 0,
                at + 4 * (c + row), at + 4 * (x_aux + i), inputs, at + 4 * d_aux, outputs,
            )  # fmt: skip
        elif way == ALONG_TRACE:
            total += follow_trace_row(weights, traces, own, slopes, 0, 0, outputs, kept, ZERO, ZERO, ZERO, by)
        elif way == ALONG_ALL:
            total += follow_all_row(weights, traces, own, slopes, value, value_slopes, outputs, kept, a, b, v, k[U])
        elif way == STEP_BY_STEP:
            total += move_by_td(f, k, w, trace, row, outputs, i, kept, x, d, x_value, d_value, terms, e, m, rows)
        if learns and not joined:
            move_by_aux(f, k, at, w + row, c + row if c >= 0 else c, outputs, x_aux + i, inputs, d_aux, count, rows)
        if y >= 0 and i % 4 == 3:
            through_4(weights - 12 * outputs, outputs, at + 4 * (x_next + i - 3), at + 4 * y, outputs)
    if y >= 0:
        last_rows_through(f, w, x_next, y, inputs, outputs)
    s[square] += total * a * a if way == ALONG_TRACE else total


@ordered
def follow_with_five(way, w, z, x, d, x_value, d_value, kept, a, b, v, by, k, past, c, x_aux, inputs, d_aux, outputs):
    """What both updates do to one row, in one pass over it."""
    if way == ALONG_TRACE and past:
        return follow_trace_with_five(
            w, z, x, d, 0, 0, kept, ZERO, ZERO, ZERO, by, c, x_aux, inputs, d_aux, outputs, k[G], k[C], k[C_KEEP],
            k[C_TAKE],
        )  # fmt: skip
    if way == ALONG_TRACE:
        return follow_trace_with_new(
            w, z, x, d, 0, 0, kept, ZERO, ZERO, ZERO, by, 0, x_aux, inputs, d_aux, outputs, k[G], ZERO, ZERO, ZERO
        )
    if past:
        return follow_all_with_five(
            w, z, x, d, x_value, d_value, kept, a, b, v, k[U], c, x_aux, inputs, d_aux, outputs, k[G], k[C], k[C_KEEP],
            k[C_TAKE],
        )  # fmt: skip
    return follow_all_with_new(
        w, z, x, d, x_value, d_value, kept, a, b, v, k[U], 0, x_aux, inputs, d_aux, outputs, k[G], ZERO, ZERO, ZERO
    )


@ordered
def last_rows_through(f, w, x, y, inputs, outputs):
    """Those that are left over where rows go by in fours."""
    at = f.ctypes.data
    for i in range(inputs - inputs % 4, inputs):
        through_1(at + 4 * (w + i * outputs), outputs, at + 4 * (x + i), at + 4 * y, outputs)


@ordered
def move_by_aux(f, k, at, w, c, outputs, x, inputs, d, count, rows):
    """The part of `outer_update` that the auxiliary has in one row; w, c and x are that row's."""
    if count == FIVE:
        weights, past, values, slopes = at + 4 * w, at + 4 * c, at + 4 * x, at + 4 * d
        if c >= 0:
            move_by_five(weights, past, values, inputs, slopes, outputs, k[G], k[C], k[C_KEEP], k[C_TAKE])
        else:
            move_by_five_new(weights, 0, values, inputs, slopes, outputs, k[G], ZERO, ZERO, ZERO)
        return
    g = part(f, rows + outputs, outputs)
    gradient_row(g, f, x, d, count, inputs, 0)
    add_row(part(f, w, outputs), k[G], g)
    if c >= 0:
        add_row(part(f, w, outputs), k[C], part(f, c, outputs))
        renew(part(f, c, outputs), k[C_KEEP], k[C_TAKE], g)


@ordered
def move_by_td(f, k, w, z, row, outputs, i, kept, x, d, x_value, d_value, terms, e, m, rows):
    """The part of `outer_update` that the RL update has in one row, direction by direction; gives its ||u||^2."""
    weights, slopes, trace, u = (
        part(f, w + row, outputs),
        part(f, d, outputs),
        part(f, z, outputs),
        part(f, rows, outputs),
    )
    from_value = f[x_value + i] if x_value >= 0 else ZERO
    value = part(f, d_value, outputs) if x_value >= 0 else slopes
    trace_row(trace, trace, f[x + i], slopes, kept)
    along_v = f[terms + 2] if x_value >= 0 else ZERO
    update_row(u, trace, f[x + i], slopes, from_value, value, f[terms], f[terms + 1], along_v)
    add_row(weights, k[U], u)
    add_row(weights, k[Z], trace)
    if e >= 0:
        add_row(weights, k[E], part(f, e + row, outputs))
    if m >= 0:
        add_row(weights, k[M], part(f, m + row, outputs))
        renew(part(f, m + row, outputs), k[M_KEEP], k[M_TAKE], u)
        if e >= 0:
            add_row(part(f, m + row, outputs), k[M_TAKE_E], part(f, e + row, outputs))
    if e >= 0:
        renew(part(f, e + row, outputs), k[E_KEEP], k[E_TAKE], u)
    return dot(u, u)


@ordered
def outer_decay(f, s, inputs, outputs, w, z, keep, x, d, terms, rate, square, x_next, y):
    """As `outer_update` for QRC's second network, whose weights decay and which learns from nothing else."""
    total, kept, at = 0.0, f[keep], f.ctypes.data
    fill(part(f, y, outputs), ZERO)
    for i in range(inputs):
        row = i * outputs
        if kept == ZERO:
            fill(part(f, z + row, outputs), ZERO)
        weights, trace, own, slopes = at + 4 * (w + row), at + 4 * (z + row), at + 4 * (x + i), at + 4 * d
        total += follow_decaying_row(
            weights, trace, own, slopes, 0, 0, outputs, kept, f[terms], f[terms + 1], f[rate], ONE
        )
        if i % 4 == 3:
            through_4(weights - 12 * outputs, outputs, at + 4 * (x_next + i - 3), at + 4 * y, outputs)
    last_rows_through(f, w, x_next, y, inputs, outputs)
    s[square] += total
