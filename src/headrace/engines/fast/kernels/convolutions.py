"""Convolutions, forwards and back, that read every window of an image where it lies.

Where windows begin is a table, `rows_at`, an entry for each of the `places` of the result. A window is `count`
stretches of `length` numbers of the image; a pair in `windows` says how far into the window a stretch begins, and how
far into the weights that belong to it. Weights are rows of `outputs` numbers.
"""

from __future__ import annotations

from headrace.engines.fast.compiling import ordered
from headrace.engines.fast.kernels.vectors import ONE, ZERO, add_row, fill
from headrace.engines.fast.kernels.ways import turn_block
from headrace.engines.fast.native import LANES, move, part
from headrace.engines.fast.tiles import (
    TALLEST,
    TILE_COLUMNS,
    convolving_1,
    convolving_5,
    convolving_6,
    folding_1,
    folding_5,
    folding_6,
    turning_1,
    turning_5,
    turning_6,
)

SHORTEST = 5  # rows of a tile, but for those of one row: any number from twenty on is made of these
STRETCH = 50  # places whose slopes and windows stay in the cache while all weights learn from them


@ordered
def tile_height(left):
    """Rows of the next tile where so many are left: all tiles about the same, since low ones wait for themselves."""
    height = -(-left // -(-left // TALLEST))
    return height if height >= SHORTEST else 1


@ordered
def convolving(height, a, rows_at, windows, count, length, b, b_step, c, c_step):
    if height == 6:
        convolving_6(a, rows_at, windows, count, length, b, b_step, c, c_step)
    elif height == 5:
        convolving_5(a, rows_at, windows, count, length, b, b_step, c, c_step)
    else:
        convolving_1(a, rows_at, windows, count, length, b, b_step, c, c_step)


@ordered
def folding(height, a, a_step, inner, b, c, rows_at):
    if height == 6:
        folding_6(a, a_step, inner, b, c, rows_at)
    elif height == 5:
        folding_5(a, a_step, inner, b, c, rows_at)
    else:
        folding_1(a, a_step, inner, b, c, rows_at)


@ordered
def turning(height, a, rows_at, inner, b, b_step, c, c_step, fresh):
    if height == 6:
        turning_6(a, rows_at, inner, b, b_step, c, c_step, fresh)
    elif height == 5:
        turning_5(a, rows_at, inner, b, b_step, c, c_step, fresh)
    else:
        turning_1(a, rows_at, inner, b, b_step, c, c_step, fresh)


@ordered
def convolve(f, n, x, w, y, places, rows_at, windows, count, length, outputs):
    """The result of every window."""
    at, tables, p = f.ctypes.data, n.ctypes.data, 0
    whole = outputs - outputs % TILE_COLUMNS
    while p < places:
        height, to = tile_height(places - p), at + 4 * (y + p * outputs)
        begin, stretches = tables + 8 * (rows_at + p), tables + 8 * windows
        for j in range(0, whole, TILE_COLUMNS):
            weights = at + 4 * (w + j)
            convolving(height, at + 4 * x, begin, stretches, count, length, weights, outputs, to + 4 * j, outputs)
        p += height
    if whole < outputs:
        convolve_rest(f, n, x, w + whole, y + whole, places, rows_at, windows, count, length, outputs, outputs - whole)


@ordered
def convolve_rest(f, n, x, w, y, places, rows_at, windows, count, length, outputs, width):
    """The last outputs, which make no whole tile."""
    for p in range(places):
        row = part(f, y + p * outputs, width)
        fill(row, ZERO)
        for s in range(windows, windows + 2 * count, 2):
            values, weights = x + n[rows_at + p] + n[s], w + n[s + 1]
            for k in range(length):
                add_row(row, f[values + k], part(f, weights + k * outputs, width))


@ordered
def turn_over(f, n, w, out, windows, count, length, outputs):
    """Weights as the way back reads them: sixteen inputs side by side for every output, then the next sixteen of the
    same stretch. Where a stretch ends within those, the rest is left as it is."""
    at, block = f.ctypes.data, out
    for s in range(windows, windows + 2 * count, 2):
        for first in range(0, length, TILE_COLUMNS):
            for k in range(first, min(first + TILE_COLUMNS, length), LANES):
                rows, source, to = min(LANES, length - k), w + n[s + 1] + k * outputs, block + k - first
                whole = outputs - outputs % LANES if rows == LANES else 0
                for o in range(0, whole, LANES):
                    turn_block(at + 4 * (source + o), outputs, at + 4 * (to + o * TILE_COLUMNS), TILE_COLUMNS)
                for o in range(whole, outputs):
                    for i in range(rows):
                        f[to + o * TILE_COLUMNS + i] = f[source + i * outputs + o]
            block += TILE_COLUMNS * outputs


@ordered
def convolve_back(f, n, d, turned, dx, size, places, rows_at, windows, count, length, outputs):
    """The gradient of the image, `size` numbers; a tile may add zeros to a few beyond those."""
    at, tables, block = f.ctypes.data, n.ctypes.data, turned
    # Where windows are nearer to each other than a tile is wide, its rows would overlap.
    tallest = places if places > 1 and n[rows_at + 1] - n[rows_at] >= TILE_COLUMNS else 1
    fill(part(f, dx, size), ZERO)
    for s in range(windows, windows + 2 * count, 2):
        for k in range(0, length, TILE_COLUMNS):
            p = 0
            while p < places:
                height, begin = tile_height(min(tallest, places - p)), tables + 8 * (rows_at + p)
                slopes = at + 4 * (d + p * outputs)
                folding(height, slopes, outputs, outputs, at + 4 * block, at + 4 * (dx + n[s] + k), begin)
                p += height
            block += TILE_COLUMNS * outputs


@ordered
def convolve_gradient(f, n, x, d, g, places, rows_at, windows, count, length, outputs):
    """The gradient of the weights."""
    at, tables, whole = f.ctypes.data, n.ctypes.data, outputs - outputs % TILE_COLUMNS
    for p in range(0, places, STRETCH):
        some, begin, slopes = min(STRETCH, places - p), tables + 8 * (rows_at + p), at + 4 * (d + p * outputs)
        for s in range(windows, windows + 2 * count, 2):
            k = 0
            while k < length:
                height, own = tile_height(length - k), at + 4 * (x + n[s] + k)
                to = at + 4 * (g + n[s + 1] + k * outputs)
                for j in range(0, 4 * whole, 4 * TILE_COLUMNS):
                    turning(height, own, begin, some, slopes + j, outputs, to + j, outputs, p == 0)
                k += height
    if whole < outputs:
        gradient_rest(f, n, x, d + whole, g + whole, places, rows_at, windows, count, length, outputs, outputs - whole)


@ordered
def gradient_rest(f, n, x, d, g, places, rows_at, windows, count, length, outputs, width):
    """That of the last outputs, which make no whole tile."""
    for s in range(windows, windows + 2 * count, 2):
        for k in range(length):
            row = part(f, g + n[s + 1] + k * outputs, width)
            fill(row, ZERO)
            for p in range(places):
                add_row(row, f[x + n[rows_at + p] + n[s] + k], part(f, d + p * outputs, width))


# images that are reflected at their edges


@ordered
def mirrored(i, size):
    """Where a place just outside 0 .. size - 1 is reflected to."""
    if size == 1:
        return 0
    if i < 0:
        return -i
    return 2 * size - 2 - i if i >= size else i


@ordered
def frame_image(f, x, out, height, width, channels):
    """An image with one more pixel all around it, by reflection."""
    at = out
    for r in range(-1, height + 1):
        row = x + mirrored(r, height) * width * channels
        move(f, at, row + mirrored(-1, width) * channels, channels)
        move(f, at + channels, row, width * channels)
        move(f, at + (width + 1) * channels, row + mirrored(width, width) * channels, channels)
        at += (width + 2) * channels


@ordered
def unframe_image(f, d, out, height, width, channels):
    """Adds the gradient of an image, from that of the image with its frame."""
    at = d
    for r in range(-1, height + 1):
        row = out + mirrored(r, height) * width * channels
        add_row(part(f, row + mirrored(-1, width) * channels, channels), ONE, part(f, at, channels))
        add_row(part(f, row, width * channels), ONE, part(f, at + channels, width * channels))
        last = row + mirrored(width, width) * channels
        add_row(part(f, last, channels), ONE, part(f, at + (width + 1) * channels, channels))
        at += (width + 2) * channels


# channels that have the same value everywhere: the action, a one among zeros


@ordered
def action_bias(f, n, w, b, out, action, taps, channels, actions, outputs):
    """The bias, and what the chosen action's channel adds to it at every place."""
    move(f, out, b, outputs)
    for t in range(taps):
        row = w + (t * (channels + actions) + channels + n[action]) * outputs
        add_row(part(f, out, outputs), ONE, part(f, row, outputs))


@ordered
def action_gradient(f, n, d, g, action, steps, places, taps, channels, actions, outputs):
    """The gradient of the actions' channels, the same at every place of a window: of all steps' slopes, each of which
    had an action of its own."""
    first = g + channels * outputs
    fill(part(f, first, actions * outputs), ZERO)
    for k in range(steps):
        row = part(f, first + n[action + k] * outputs, outputs)
        for p in range(k * places, (k + 1) * places):
            add_row(row, ONE, part(f, d + p * outputs, outputs))
    for t in range(1, taps):
        move(f, first + t * (channels + actions) * outputs, first, actions * outputs)
