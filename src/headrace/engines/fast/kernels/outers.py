"""Dense layers too large to write their gradients out: those are outer products, made row by row on the way.

A layer is (inputs, outputs) with its bias as the last row. Its RL gradients are x d^T (of Q(s, a)) and x' d'^T (of
max Q(s')), its auxiliary gradient a sum of `count` outer products.
"""

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
from headrace.engines.fast.kernels.vectors import ZERO, add_four_rows, add_row, dot, fill, renew
from headrace.engines.fast.native import part


@summing
def row_size(z, x, d, keep):
    """||keep z + x d||_1 of one row."""
    total = ZERO
    for j in range(d.size):
        total += abs(keep * z[j] + x * d[j])
    return total


@ordered
def add_sizes(sums, z0, z1, z2, z3, x0, x1, x2, x3, d, keep):
    """Adds |keep z + x d| of four rows to sums of their columns."""
    for j in range(sums.size):
        upper = abs(keep * z0[j] + x0 * d[j]) + abs(keep * z1[j] + x1 * d[j])
        lower = abs(keep * z2[j] + x2 * d[j]) + abs(keep * z3[j] + x3 * d[j])
        sums[j] += upper + lower


@ordered
def outer_trace_size(f, s, z, x, d, inputs, outputs, keep, sums, out):
    """Adds ||keep z + x d^T||_1 to `out`, nothing being changed. `sums` is room for a row: columns come first.

    Where keep is 0, z is not looked at; the sums are then those of a trace that is zero, to the bit.
    """
    kept, columns, slopes, total = f[keep], part(f, sums, outputs), part(f, d, outputs), 0.0
    fill(columns, ZERO)
    whole = inputs - inputs % 4
    for i in range(0, whole, 4):
        at, p, step = z + i * outputs, x + i, outputs
        if kept == ZERO:
            at, step = d, 0
        z0, z1 = part(f, at, outputs), part(f, at + step, outputs)
        z2, z3 = part(f, at + 2 * step, outputs), part(f, at + 3 * step, outputs)
        add_sizes(columns, z0, z1, z2, z3, f[p], f[p + 1], f[p + 2], f[p + 3], slopes, kept)
    for i in range(whole, inputs):
        trace = slopes if kept == ZERO else part(f, z + i * outputs, outputs)
        total += row_size(trace, f[x + i], slopes, kept)
    for j in range(outputs):
        total += columns[j]
    s[out] += total


@ordered
def outer_squared_norm(f, s, x, d, count, inputs, outputs, out):
    """Adds ||sum_k x_k d_k^T||^2 to `out`: the sum over k, m of (x_k . x_m) (d_k . d_m)."""
    total = 0.0
    for k in range(count):
        for m in range(k + 1):
            rows = dot(part(f, x + k * inputs, inputs), part(f, x + m * inputs, inputs))
            columns = dot(part(f, d + k * outputs, outputs), part(f, d + m * outputs, outputs))
            total += np.float64(rows) * np.float64(columns) * (1.0 if k == m else 2.0)
    s[out] += total


@ordered
def gradient_row(g, f, x, d, count, inputs, i):
    """g <- row i of sum_k x_k d_k^T."""
    m = g.size
    if count == 5:
        a0, a1, a2, a3, a4 = (
            f[x + i],
            f[x + inputs + i],
            f[x + 2 * inputs + i],
            f[x + 3 * inputs + i],
            f[x + 4 * inputs + i],
        )
        d0, d1, d2, d3, d4 = (
            part(f, d, m),
            part(f, d + m, m),
            part(f, d + 2 * m, m),
            part(f, d + 3 * m, m),
            part(f, d + 4 * m, m),
        )
        for j in range(m):
            g[j] = (((a0 * d0[j] + a1 * d1[j]) + a2 * d2[j]) + a3 * d3[j]) + a4 * d4[j]
        return
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
def history_products(f, s, gram, inputs, outputs, x, d, c, rows):
    """g . c and c . c of a gradient of five outer products, in one pass; columns are summed first."""
    both, own = part(f, rows, outputs), part(f, rows + outputs, outputs)
    fill(both, ZERO)
    fill(own, ZERO)
    d0, d1, d2, d3 = (
        part(f, d, outputs),
        part(f, d + outputs, outputs),
        part(f, d + 2 * outputs, outputs),
        part(f, d + 3 * outputs, outputs),
    )
    d4 = part(f, d + 4 * outputs, outputs)
    for i in range(inputs):
        a0, a1, a2 = f[x + i], f[x + inputs + i], f[x + 2 * inputs + i]
        a3, a4 = f[x + 3 * inputs + i], f[x + 4 * inputs + i]
        past = part(f, c + i * outputs, outputs)
        for j in range(outputs):
            g = (((a0 * d0[j] + a1 * d1[j]) + a2 * d2[j]) + a3 * d3[j]) + a4 * d4[j]
            both[j] += g * past[j]
            own[j] += past[j] * past[j]
    for j in range(outputs):
        s[gram + DIRECTIONS * G + C] += both[j]
        s[gram + DIRECTIONS * C + C] += own[j]


@ordered
def outer_products(
    f, s, n, gram, active, mask, mask_at_rest, inputs, outputs, z, keep, x, d, x_value, d_value, terms,
    x_aux, d_aux, count, c, e, m, rows,
):  # fmt: skip
    """The inner products of the pairs of directions that the mask asks for, in one pass. `rows` is room for three."""
    wanted = mask if n[active] != 0 else mask_at_rest
    if wanted == 0:
        return
    if wanted == HISTORY_ONLY and count == 5:
        history_products(f, s, gram, inputs, outputs, x_aux, d_aux, c, rows)
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


@summing
def move_row(w, z, x, d, keep, x_value, d_value, along_z, along_g, along_v, by_u, by_z):
    """One row: z <- keep z + x d, u as in `update_row`, w <- w + by_u u + by_z z; gives ||u||^2."""
    of_g, of_v, square = along_g * x, along_v * x_value, ZERO
    for j in range(w.size):
        trace = keep * z[j] + x * d[j]
        z[j] = trace
        u = along_z * trace + of_g * d[j] + of_v * d_value[j]
        w[j] += by_u * u + by_z * trace
        square += u * u
    return square


@summing
def move_row_along_trace(w, z, x, d, keep, by):
    """As `move_row` where the update is along the trace alone; gives ||z||^2."""
    square = ZERO
    for j in range(w.size):
        trace = keep * z[j] + x * d[j]
        z[j] = trace
        w[j] += by * trace
        square += trace * trace
    return square


@summing
def move_decaying_row(w, z, x, d, keep, along_z, along_g, rate):
    """z <- keep z + x d, u = along_z z + along_g x d - rate w, w <- w + u; gives ||u||^2."""
    of_g, square = along_g * x, ZERO
    for j in range(w.size):
        trace = keep * z[j] + x * d[j]
        z[j] = trace
        u = along_z * trace + of_g * d[j] - rate * w[j]
        w[j] += u
        square += u * u
    return square


@ordered
def move_row_and_history(w, g, c, by_g, by_c, keep, take):
    for j in range(w.size):
        gradient, past = g[j], c[j]
        w[j] += by_g * gradient + by_c * past
        c[j] = keep * past + take * gradient


@ordered
def move_by_five(f, k, w, c, outputs, x, d, inputs, i):
    """The auxiliary's part in row i where its gradient is five outer products and has a history: one pass."""
    a0, a1, a2 = f[x + i], f[x + inputs + i], f[x + 2 * inputs + i]
    a3, a4 = f[x + 3 * inputs + i], f[x + 4 * inputs + i]
    d0, d1, d2 = part(f, d, outputs), part(f, d + outputs, outputs), part(f, d + 2 * outputs, outputs)
    d3, d4 = part(f, d + 3 * outputs, outputs), part(f, d + 4 * outputs, outputs)
    weights, past, by_g, by_c, keep, take = part(f, w, outputs), part(f, c, outputs), k[G], k[C], k[C_KEEP], k[C_TAKE]
    for j in range(outputs):
        g = (((a0 * d0[j] + a1 * d1[j]) + a2 * d2[j]) + a3 * d3[j]) + a4 * d4[j]
        weights[j] += by_g * g + by_c * past[j]
        past[j] = keep * past[j] + take * g


@ordered
def add_rows(f, y, x, w, first, count, outputs):
    """y <- y + sum over `count` <= 4 rows from `first` on of x_i w_i, in the order of `dense`."""
    out = part(f, y, outputs)
    at = w + first * outputs
    if count == 4:
        w0, w1 = part(f, at, outputs), part(f, at + outputs, outputs)
        w2, w3 = part(f, at + 2 * outputs, outputs), part(f, at + 3 * outputs, outputs)
        p = x + first
        add_four_rows(out, f[p], f[p + 1], f[p + 2], f[p + 3], w0, w1, w2, w3)
    else:
        for i in range(count):
            add_row(out, f[x + first + i], part(f, at + i * outputs, outputs))


@ordered
def outer_update(
    f, s, n, active, coefficients, inputs, outputs, w, z, keep, x, d, x_value, d_value, terms, x_aux, d_aux, count,
    c, e, m, rows, square, x_next, y,
):  # fmt: skip
    """Moves trace, weights, C, E and M of a layer on, and sends the next input through it, all in one pass.

    Negative offsets are absent. The squared norm of the RL update is added to `square`.
    """
    k, total = part(f, coefficients, C_KEEP + 7), 0.0
    kept = f[keep]
    learns = n[active] != 0 and count > 0
    along_trace = z >= 0 and x_value < 0 and f[terms + 1] == ZERO and e < 0 and m < 0
    g_row = part(f, rows + outputs, outputs)
    if y >= 0:
        fill(part(f, y, outputs), ZERO)
    for i in range(inputs):
        at = i * outputs
        weights = part(f, w + at, outputs)
        if along_trace:
            trace = part(f, z + at, outputs)
            if kept == ZERO:
                fill(trace, ZERO)
            by = k[U] * f[terms] + k[Z]
            total += move_row_along_trace(weights, trace, f[x + i], part(f, d, outputs), kept, by)
        elif d >= 0:
            total += move_by_td(f, k, w, z, at, outputs, i, kept, x, d, x_value, d_value, terms, e, m, rows)
        if learns and c >= 0 and count == 5:
            move_by_five(f, k, w + at, c + at, outputs, x_aux, d_aux, inputs, i)
        elif learns:
            gradient_row(g_row, f, x_aux, d_aux, count, inputs, i)
            if c >= 0:
                history = part(f, c + at, outputs)
                move_row_and_history(weights, g_row, history, k[G], k[C], k[C_KEEP], k[C_TAKE])
            else:
                add_row(weights, k[G], g_row)
        if y >= 0 and i % 4 == 3:
            add_rows(f, y, x_next, w, i - 3, 4, outputs)
    if y >= 0:
        add_rows(f, y, x_next, w, inputs - inputs % 4, inputs % 4, outputs)
    s[square] += total * f[terms] * f[terms] if along_trace else total


@ordered
def move_by_td(f, k, w, z, at, outputs, i, kept, x, d, x_value, d_value, terms, e, m, rows):
    """The part of `outer_update` that the RL update has in one row; gives its ||u||^2."""
    weights, slopes = part(f, w + at, outputs), part(f, d, outputs)
    trace = part(f, z + at, outputs) if z >= 0 else part(f, rows + 2 * outputs, outputs)
    if kept == ZERO or z < 0:
        fill(trace, ZERO)
    from_value = f[x_value + i] if x_value >= 0 else ZERO
    value = part(f, d_value, outputs) if x_value >= 0 else slopes
    a, b, v = f[terms], f[terms + 1], f[terms + 2] if x_value >= 0 else ZERO
    if e < 0 and m < 0:
        return move_row(weights, trace, f[x + i], slopes, kept, from_value, value, a, b, v, k[U], k[Z])
    u = part(f, rows, outputs)
    trace_row(trace, trace, f[x + i], slopes, kept)
    update_row(u, trace, f[x + i], slopes, from_value, value, a, b, v)
    add_row(weights, k[U], u)
    add_row(weights, k[Z], trace)
    if e >= 0:
        add_row(weights, k[E], part(f, e + at, outputs))
    if m >= 0:
        add_row(weights, k[M], part(f, m + at, outputs))
        renew(part(f, m + at, outputs), k[M_KEEP], k[M_TAKE], u)
        if e >= 0:
            add_row(part(f, m + at, outputs), k[M_TAKE_E], part(f, e + at, outputs))
    if e >= 0:
        renew(part(f, e + at, outputs), k[E_KEEP], k[E_TAKE], u)
    return dot(u, u)


@ordered
def outer_decay(f, s, inputs, outputs, w, z, keep, x, d, terms, rate, square, x_next, y):
    """As `outer_update` for QRC's second network, whose weights decay and which learns from nothing else."""
    total, kept = 0.0, f[keep]
    fill(part(f, y, outputs), ZERO)
    for i in range(inputs):
        at = i * outputs
        trace = part(f, z + at, outputs)
        if kept == ZERO:
            fill(trace, ZERO)
        weights, slopes = part(f, w + at, outputs), part(f, d, outputs)
        total += move_decaying_row(weights, trace, f[x + i], slopes, kept, f[terms], f[terms + 1], f[rate])
        if i % 4 == 3:
            add_rows(f, y, x_next, w, i - 3, 4, outputs)
    add_rows(f, y, x_next, w, inputs - inputs % 4, inputs % 4, outputs)
    s[square] += total
