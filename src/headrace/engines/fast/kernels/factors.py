"""A dense layer whose last steps are kept as outer products: what a step adds to weights and trace is not written out.

The weights are W = W_0 - lost W_0 + sum_k c_k x_k d_k^T + c Z_0, the trace is Z = sum_k z_k x_k d_k^T + z Z_0. The x_k
(`step` numbers apart) and the d_k are the rows of a window, of which `count` are in use; Z_0 is a trace that was put in
place as a matrix, and counts until it has decayed. `state` is where the numbers lie: some of the layer's own, then c_k,
z_k and |x_k| |d_k| for as many rows as there can be. A step changes these numbers and adds rows; every so many steps
`flush` takes those into W_0 that are done with.

What an input or a gradient has seen on its way through lies at `seen`: x_k . x, then d_k . d, room for factors, each
for all rows; then x Z_0 and x W.
"""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered
from headrace.engines.fast.kernels.layers import go_back, go_both_ways, go_through
from headrace.engines.fast.kernels.rows import add_to
from headrace.engines.fast.kernels.vectors import ONE, ZERO, fill, long_dot
from headrace.engines.fast.kernels.ways import inner, through_1
from headrace.engines.fast.native import move, part
from headrace.engines.fast.tiles import TALLEST, TILE_COLUMNS, renewing_1, renewing_6

# A layer's own numbers: lost, z, |Z_0|, c; then Z . Z, and where weights decay W . Z and W . W.
LOST, OLD, OLD_SIZE, OLD_TAKEN, ZZ, WZ, WW = range(7)
NUMBERS = 16  # with room to the next line of the cache
SMALLEST = np.float32(2.0**-20)  # of a trace: less of it than this is not seen beside the rest


# forwards and back


@ordered
def shrink(values, lost):
    """values <- values - lost values."""
    for j in range(values.size):
        values[j] -= lost * values[j]


@ordered
def weigh(f, seen, taken, out, live):
    """out <- c_k times what was seen of row k."""
    for k in range(live):
        f[out + k] = f[taken + k] * f[seen + k]


@ordered
def add_latest(f, live, state, ds, rows, outputs, y, seen):
    """y <- W x from what W_0 and the window gave; the bias is a one in every row."""
    for k in range(live):
        f[seen + k] += ONE
    weigh(f, seen, state + NUMBERS, seen + 2 * rows, live)
    go_through(f, ds, outputs, seen + 2 * rows, y, live, outputs)


@ordered
def add_old(f, z, state, inputs, outputs, x, y, old):
    """y <- y + c x Z_0, while that counts; x Z_0 is kept."""
    if f[state + OLD] == ZERO and f[state + OLD_TAKEN] == ZERO:
        return
    fill(part(f, old, outputs), ZERO)
    go_through(f, z, outputs, x, old, inputs + 1, outputs)
    at = f.ctypes.data
    add_to(at + 4 * y, f[state + OLD_TAKEN], at + 4 * old, outputs)


@ordered
def add_old_back(f, z, state, inputs, outputs, d, dx):
    """dx <- dx + c Z_0 d, while that counts."""
    at = f.ctypes.data
    if f[state + OLD_TAKEN] != ZERO:
        for i in range(inputs):
            f[dx + i] += f[state + OLD_TAKEN] * inner(at + 4 * (z + i * outputs), at + 4 * d, outputs)


@ordered
def finish_through(f, live, z, state, ds, rows, inputs, outputs, x, y, seen):
    add_latest(f, live, state, ds, rows, outputs, y, seen)
    old = seen + 3 * rows
    add_old(f, z, state, inputs, outputs, x, y, old)
    move(f, old + outputs, y, outputs)


@ordered
def see_slopes(f, live, state, ds, rows, outputs, d, seen):
    """d_k . d of every row, and their factors on the way back."""
    go_back(f, ds, outputs, d, seen + rows, live, outputs)
    weigh(f, seen + rows, state + NUMBERS, seen + 2 * rows, live)


@ordered
def factored_through(f, n, w, z, count, state, xs, ds, rows, inputs, outputs, step, x, y, seen):
    """y <- x W."""
    live = n[count]
    fill(part(f, y, outputs), ZERO)
    go_through(f, w, outputs, x, y, inputs + 1, outputs)
    shrink(part(f, y, outputs), f[state + LOST])
    go_back(f, xs, step, x, seen, live, inputs)
    finish_through(f, live, z, state, ds, rows, inputs, outputs, x, y, seen)


@ordered
def factored_back(f, n, w, z, count, state, xs, ds, rows, inputs, outputs, step, d, dx, seen):
    """dx <- W d."""
    live = n[count]
    see_slopes(f, live, state, ds, rows, outputs, d, seen)
    go_back(f, w, outputs, d, dx, inputs, outputs)
    shrink(part(f, dx, inputs), f[state + LOST])
    go_through(f, xs, step, seen + 2 * rows, dx, live, inputs)
    add_old_back(f, z, state, inputs, outputs, d, dx)


@ordered
def factored_both_ways(
    f, n, w, z, count, state, xs, ds, rows, inputs, outputs, step, x, y, seen, d, dx, seen_back
):  # fmt: skip
    """Both in one pass over weights and window: as `factored_through` and `factored_back`, to the bit."""
    live, at = n[count], f.ctypes.data
    see_slopes(f, live, state, ds, rows, outputs, d, seen_back)
    fill(part(f, y, outputs), ZERO)
    go_both_ways(f, w, outputs, x, y, d, dx, inputs, outputs)
    through_1(at + 4 * (w + inputs * outputs), outputs, at + 4 * (x + inputs), at + 4 * y, outputs)
    shrink(part(f, y, outputs), f[state + LOST])
    shrink(part(f, dx, inputs), f[state + LOST])
    go_both_ways(f, xs, step, seen_back + 2 * rows, dx, x, seen, live, inputs)
    finish_through(f, live, z, state, ds, rows, inputs, outputs, x, y, seen)
    add_old_back(f, z, state, inputs, outputs, d, dx)


# a step


@ordered
def along_trace(f, live, state, rows, outputs, d, seen):
    """Z . x d^T, of what was seen of x and d."""
    total = 0.0
    for k in range(live):
        total += f[state + NUMBERS + rows + k] * f[seen + k] * np.float64(f[seen + rows + k])
    if f[state + OLD] != ZERO:
        total += f[state + OLD] * long_dot(f, seen + 3 * rows, d, outputs)
    return total


@ordered
def outer_dot(f, x, d, other_x, other_d, inputs, outputs):
    """The inner product of two outer products."""
    return long_dot(f, x, other_x, inputs + 1) * long_dot(f, d, other_d, outputs)


@ordered
def not_negative(square):
    """A square that rounding may have left below zero; what is no number stays none."""
    return 0.0 if square < 0.0 else square


@ordered
def put_row(f, n, count, state, xs, ds, rows, inputs, outputs, step, x, d, taken, kept, size):
    """One more row: so much of it is taken into the weights, so much kept in the trace."""
    k = n[count]
    move(f, xs + k * step, x, inputs + 1)
    move(f, ds + k * outputs, d, outputs)
    f[state + NUMBERS + k], f[state + NUMBERS + rows + k], f[state + NUMBERS + 2 * rows + k] = taken, kept, size
    n[count] = k + 1


@ordered
def decayed(kept, keep, size, whole):
    """What is left of a part of the trace; nothing where that cannot be seen in the whole."""
    left = kept * keep
    return ZERO if left * size <= SMALLEST * whole else left


@ordered
def fade_and_take(f, live, state, rows, keep, along_z, rate, whole):
    """Every row's part of the trace decays, and is taken into the weights; so is what is left of the old trace."""
    for k in range(state + NUMBERS, state + NUMBERS + live):
        f[k + rows] = decayed(f[k + rows], keep, f[k + 2 * rows], whole)
        f[k] += along_z * f[k + rows] - rate * f[k]
    f[state + OLD] = decayed(f[state + OLD], keep, f[state + OLD_SIZE], whole)
    f[state + OLD_TAKEN] += along_z * f[state + OLD] - rate * f[state + OLD_TAKEN]
    f[state + LOST] += rate * (ONE - f[state + LOST])


@ordered
def factored_move(
    f, s, n, count, state, xs, ds, rows, inputs, outputs, step, keep, terms, rate, square, x, d, seen,
    x_value, d_value, seen_value,
):  # fmt: skip
    """Z <- keep Z + g, W <- W + u with u = terms . (Z, g, v) - rate W, where g = x d^T and v = x' d'^T; u . u is added
    to `square`. Where there is no x' there is no v, where there is no rate nothing decays; no layer has both."""
    live, kept, a, b = n[count], f[keep], np.float64(f[terms]), np.float64(f[terms + 1])
    gg, zg, before = outer_dot(f, x, d, x, d, inputs, outputs), 0.0, 0.0
    if kept != ZERO:
        zg, before = kept * along_trace(f, live, state, rows, outputs, d, seen), kept * np.float64(f[state + ZZ]) * kept
    zz, zg = not_negative(before + 2 * zg + gg), zg + gg
    total = a * a * zz + 2 * a * b * zg + b * b * gg
    if x_value >= 0:
        v, vv = np.float64(f[terms + 2]), outer_dot(f, x_value, d_value, x_value, d_value, inputs, outputs)
        gv = outer_dot(f, x, d, x_value, d_value, inputs, outputs)
        zv = gv if kept == ZERO else gv + kept * along_trace(f, live, state, rows, outputs, d_value, seen_value)
        total += v * (2 * a * zv + 2 * b * gv + v * vv)
    lost = f[rate] if rate >= 0 else ZERO
    if rate < 0:
        f[state + WZ] = ZERO  # which is not kept up
    else:
        r, ww, wg = np.float64(lost), np.float64(f[state + WW]), long_dot(f, seen + 3 * rows + outputs, d, outputs)
        wz = wg if kept == ZERO else kept * np.float64(f[state + WZ]) + wg
        total += r * (r * ww - 2 * a * wz - 2 * b * wg)
        f[state + WZ] = wz + a * zz + b * zg - r * wz
        f[state + WW] = ww + 2 * (a * wz + b * wg - r * ww) + total
    s[square] += not_negative(total)
    f[state + ZZ] = zz
    fade_and_take(f, live, state, rows, kept, f[terms], lost, np.float32(np.sqrt(zz)))
    taken, size = f[terms] + f[terms + 1], np.float32(np.sqrt(gg))
    put_row(f, n, count, state, xs, ds, rows, inputs, outputs, step, x, d, taken, ONE, size)
    if x_value >= 0:
        put_row(f, n, count, state, xs, ds, rows, inputs, outputs, step, x_value, d_value, f[terms + 2], ZERO, ZERO)


# bringing matrices up to date


@ordered
def pack(f, ds, factors, out, live, outputs):
    """The rows d_k times their factors, sixteen columns at a time, as tiles read them."""
    for j in range(0, outputs, TILE_COLUMNS):
        for k in range(live):
            for c in range(TILE_COLUMNS):
                f[out + j * live + k * TILE_COLUMNS + c] = f[factors + k] * f[ds + k * outputs + j + c]


@ordered
def add_factors(at, matrix, lost, xs, packed, live, inputs, outputs, step):
    """matrix <- matrix - lost matrix + sum_k x_k d_k^T; `matrix` and `at`, where memory begins, are addresses."""
    whole = inputs + 1 - (inputs + 1) % TALLEST
    for i in range(0, whole, TALLEST):
        for j in range(0, outputs, TILE_COLUMNS):
            a, b, c = at + 4 * (xs + i), at + 4 * (packed + j * live), matrix + 4 * (i * outputs + j)
            renewing_6(a, step, live, b, c, outputs, lost)
    for i in range(whole, inputs + 1):
        for j in range(0, outputs, TILE_COLUMNS):
            a, b, c = at + 4 * (xs + i), at + 4 * (packed + j * live), matrix + 4 * (i * outputs + j)
            renewing_1(a, step, live, b, c, outputs, lost)


@ordered
def put_stragglers_into_old(f, live, z, state, xs, ds, rows, inputs, outputs, step, packed):
    """Rows that count although they are as old as they may be, so large were they: Z_0 <- z Z_0 + sum_k z_k x_k d_k^T.

    So there is always room for new rows, and nothing is forgotten before its time.
    """
    trace, factors, found, at = state + NUMBERS + rows, packed + rows * outputs, False, f.ctypes.data
    for k in range(live):
        late = f[trace + k] != ZERO and f[trace + k] < SMALLEST
        f[factors + k] = f[trace + k] if late else ZERO
        f[trace + k] = ZERO if late else f[trace + k]
        found |= late
    if not found:
        return
    size = (inputs + 1) * outputs
    if f[state + OLD] == ZERO:
        fill(part(f, z, size), ZERO)
    pack(f, ds, factors, packed, live, outputs)
    add_factors(at, at + 4 * z, ONE - f[state + OLD], xs, packed, live, inputs, outputs, step)
    f[state + OLD], f[state + OLD_SIZE] = ONE, np.sqrt(long_dot(f, z, z, size))


@ordered
def swap(f, a, b, size):
    """Two stretches change places."""
    for j in range(size):
        f[a + j], f[b + j] = f[b + j], f[a + j]


@ordered
def rows_of_trace_first(f, count, state, xs, ds, rows, outputs, step):
    """Rows that are part of the trace change places with earlier ones that are not; gives how many there are."""
    trace, kept, last = state + NUMBERS + rows, 0, count - 1
    while True:
        while kept <= last and f[trace + kept] != ZERO:
            kept += 1
        while kept <= last and f[trace + last] == ZERO:
            last -= 1
        if kept > last:
            return kept
        swap(f, xs + kept * step, xs + last * step, step)
        swap(f, ds + kept * outputs, ds + last * outputs, outputs)
        for numbers in range(state + NUMBERS, state + NUMBERS + 3 * rows, rows):
            swap(f, numbers + kept, numbers + last, 1)


@ordered
def factored_flush(f, n, w, z, count, state, xs, ds, rows, inputs, outputs, step, packed, clock, every, phase):
    """Every so many steps rows that are no part of the trace any more are added to W_0, and go; those that are will
    have more of them taken, and can wait."""
    if n[clock] % every != phase:
        return
    at, used = f.ctypes.data, n[count]
    if f[state + OLD_TAKEN] != ZERO:
        shrink(part(f, w, (inputs + 1) * outputs), f[state + LOST])
        add_to(at + 4 * w, f[state + OLD_TAKEN], at + 4 * z, (inputs + 1) * outputs)
        f[state + LOST], f[state + OLD_TAKEN] = ZERO, ZERO
    put_stragglers_into_old(f, used, z, state, xs, ds, rows, inputs, outputs, step, packed)
    kept = rows_of_trace_first(f, used, state, xs, ds, rows, outputs, step)
    pack(f, ds + kept * outputs, state + NUMBERS + kept, packed, used - kept, outputs)
    add_factors(at, at + 4 * w, f[state + LOST], xs + kept * step, packed, used - kept, inputs, outputs, step)
    f[state + LOST], n[count] = ZERO, kept


@ordered
def write_factors(f, out, factors, lost, xs, ds, live, inputs, outputs, step, packed):
    """out <- out - lost out + sum_k factors_k x_k d_k^T, `out` being an array of its own."""
    pack(f, ds, factors, packed, live, outputs)
    add_factors(f.ctypes.data, out.ctypes.data, lost, xs, packed, live, inputs, outputs, step)
