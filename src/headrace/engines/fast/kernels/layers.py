"""Convolutions, dense layers and activations, forwards and backwards."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered, summing
from headrace.engines.fast.kernels.vectors import ONE, ZERO, add_four_rows, add_row, dot, fill, four_dots
from headrace.engines.fast.native import (
    TALLEST,
    TILE_COLUMNS,
    add_1,
    add_2,
    add_3,
    add_4,
    add_5,
    add_6,
    move,
    part,
    set_1,
    set_2,
    set_3,
    set_4,
    set_5,
    set_6,
)  # fmt: skip

SLOPE, STEEP = np.float32(0.01), np.float32(100)  # of LeakyReLU below zero, and of its inverse
LAYER_NORM_EPS = 1e-5
STRETCH = 64  # inputs of a dense layer that several rows go through together


@ordered
def set_tile(rows, a, row_step, inner_step, b, b_step, c, c_step, inner):
    """C <- A B for `rows` <= 6 rows and sixteen columns."""
    if rows == 6:
        set_6(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 5:
        set_5(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 4:
        set_4(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 3:
        set_3(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 2:
        set_2(a, row_step, inner_step, b, b_step, c, c_step, inner)
    else:
        set_1(a, row_step, inner_step, b, b_step, c, c_step, inner)


@ordered
def add_tile(rows, a, row_step, inner_step, b, b_step, c, c_step, inner):
    """C <- C + A B for `rows` <= 6 rows and sixteen columns."""
    if rows == 6:
        add_6(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 5:
        add_5(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 4:
        add_4(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 3:
        add_3(a, row_step, inner_step, b, b_step, c, c_step, inner)
    elif rows == 2:
        add_2(a, row_step, inner_step, b, b_step, c, c_step, inner)
    else:
        add_1(a, row_step, inner_step, b, b_step, c, c_step, inner)


@ordered
def product(f, a, b, c, rows, columns, inner, turn_a):
    """C (rows, columns) <- op(A) B by rows, where op turns A over if asked to."""
    at = f.ctypes.data
    row_step, inner_step = (1, rows) if turn_a else (inner, 1)
    whole = columns - columns % TILE_COLUMNS
    height = 4 if rows % 4 == 0 and rows <= 64 else TALLEST
    for j in range(0, whole, TILE_COLUMNS):
        for i in range(0, rows, height):
            left, right, to = at + 4 * (a + i * row_step), at + 4 * (b + j), at + 4 * (c + i * columns + j)
            set_tile(min(height, rows - i), left, row_step, inner_step, right, columns, to, columns, inner)
    for i in range(rows):
        for j in range(whole, columns):
            total = ZERO
            for k in range(inner):
                total += f[a + i * row_step + k * inner_step] * f[b + k * columns + j]
            f[c + i * columns + j] = total


@ordered
def turn_over(f, w, out, rows, columns, step):
    """The transpose of (rows, columns), with `step` numbers from a row of it to the next; by blocks, for the cache."""
    for i in range(0, rows, 16):
        for j in range(columns):
            to, source = part(f, out + j * step, rows), part(f, w + j, rows * columns)
            for k in range(i, min(i + 16, rows)):
                to[k] = source[k * columns]


@ordered
def patches(f, x, out, width, channels, kernel_h, kernel_w, stride_h, stride_w, rows, columns):
    """Every window of an image as one row, in the order of a kernel's weights."""
    length = kernel_w * channels
    at = out
    for r in range(rows):
        for c in range(columns):
            for i in range(kernel_h):
                move(f, at, x + ((r * stride_h + i) * width + c * stride_w) * channels, length)
                at += length


@ordered
def fold(f, d, step, out, height, width, channels, kernel_h, kernel_w, stride_h, stride_w, rows, columns):
    """What `patches` took apart is added up: the gradient of an image from that of its windows, `step` apart."""
    fill(part(f, out, channels * height * width), ZERO)
    length = kernel_w * channels
    for r in range(rows):
        for c in range(columns):
            at = d + (r * columns + c) * step
            for i in range(kernel_h):
                start = out + ((r * stride_h + i) * width + c * stride_w) * channels
                add_row(part(f, start, length), ONE, part(f, at, length))
                at += length


@ordered
def mirrored(i, size):
    """Where a place just outside 0 .. size - 1 is reflected to."""
    if size == 1:
        return 0
    if i < 0:
        return -i
    return 2 * size - 2 - i if i >= size else i


@ordered
def mirrored_patches(f, x, out, height, width, channels):
    """Every 3x3 window of an image that is reflected at its edges."""
    at = out
    for r in range(height):
        for c in range(width):
            for i in range(-1, 2):
                row = mirrored(r + i, height)
                for j in range(-1, 2):
                    move(f, at, x + (row * width + mirrored(c + j, width)) * channels, channels)
                    at += channels


@ordered
def mirrored_fold(f, d, step, out, height, width, channels, kept):
    """Adds the gradient of an image's first `kept` channels, from that of its 3x3 windows, reflected at the edges."""
    for r in range(height):
        for c in range(width):
            at = d + (r * width + c) * step
            for i in range(-1, 2):
                row = mirrored(r + i, height)
                for j in range(-1, 2):
                    start = out + (row * width + mirrored(c + j, width)) * kept
                    add_row(part(f, start, kept), ONE, part(f, at, kept))
                    at += channels


@ordered
def join_action(f, n, z, out, pixels, channels, actions, action):
    """The latent with the one-hot action beside every pixel's channels."""
    for p in range(pixels):
        at = out + p * (channels + actions)
        move(f, at, z + p * channels, channels)
        fill(part(f, at + channels, actions), ZERO)
        f[at + channels + n[action]] = ONE


@summing
def activate(f, y, bias, size, width, scale):
    """LayerNorm over all of `y` jointly, then LeakyReLU, in place; `bias` (none if negative) is added before.

    Sums are kept by rows and added up in double precision; 1 / deviation is kept for the way back.
    """
    total = np.float64(0)
    for start in range(y, y + size, width):
        row, some = part(f, start, width), ZERO
        if bias >= 0:
            b = part(f, bias, width)
            for j in range(width):
                row[j] += b[j]
        for j in range(width):
            some += row[j]
        total += some
    mean = np.float32(total / size)
    total = np.float64(0)
    for start in range(y, y + size, width):
        row, some = part(f, start, width), ZERO
        for j in range(width):
            centred = row[j] - mean
            row[j] = centred
            some += centred * centred
        total += some
    per_deviation = np.float32(1.0 / np.sqrt(total / size + LAYER_NORM_EPS))
    values = part(f, y, size)
    for j in range(size):
        normal = values[j] * per_deviation
        values[j] = normal if normal >= ZERO else SLOPE * normal
    f[scale] = per_deviation


@summing
def unactivate(f, a, d, size, width, scale):
    """The gradient before LeakyReLU and LayerNorm from that after them, in place; `a` is what `activate` gave."""
    total = along = np.float64(0)
    for start in range(0, size, width):
        out, slope = part(f, a + start, width), part(f, d + start, width)
        some, some_along = ZERO, ZERO
        for j in range(width):
            up = out[j] >= ZERO
            normal = out[j] if up else STEEP * out[j]
            s = slope[j] if up else SLOPE * slope[j]
            slope[j] = s
            some += s
            some_along += s * normal
        total += some
        along += some_along
    mean, mean_along, per_deviation = np.float32(total / size), np.float32(along / size), f[scale]
    outs, slopes = part(f, a, size), part(f, d, size)
    for j in range(size):
        normal = outs[j] if outs[j] >= ZERO else STEEP * outs[j]
        slopes[j] = per_deviation * (slopes[j] - mean - normal * mean_along)


@ordered
def column_sums(f, d, out, rows, width):
    sums = part(f, out, width)
    fill(sums, ZERO)
    for start in range(d, d + rows * width, width):
        row = part(f, start, width)
        for j in range(width):
            sums[j] += row[j]


@ordered
def dense(f, w, x, y, count, inputs, outputs):
    """`count` rows through one dense layer. Its bias is the last row of `w`, the last element of each input a one."""
    fill(part(f, y, count * outputs), ZERO)
    if count > 1 and outputs % TILE_COLUMNS == 0:
        dense_together(f, w, x, y, count, inputs, outputs)
        return
    whole = inputs - inputs % 4
    for i in range(0, whole, 4):
        at = w + i * outputs
        w0, w1 = part(f, at, outputs), part(f, at + outputs, outputs)
        w2, w3 = part(f, at + 2 * outputs, outputs), part(f, at + 3 * outputs, outputs)
        for k in range(count):
            p = x + k * inputs + i
            add_four_rows(part(f, y + k * outputs, outputs), f[p], f[p + 1], f[p + 2], f[p + 3], w0, w1, w2, w3)
    for i in range(whole, inputs):
        for k in range(count):
            add_row(part(f, y + k * outputs, outputs), f[x + k * inputs + i], part(f, w + i * outputs, outputs))


@ordered
def dense_together(f, w, x, y, count, inputs, outputs):
    """The rows in tiles, for some of the layer's inputs at a time: those weights stay in the cache for all rows."""
    at = f.ctypes.data
    for i in range(0, inputs, STRETCH):
        length = min(STRETCH, inputs - i)
        for j in range(0, outputs, TILE_COLUMNS):
            for k in range(0, count, TALLEST):
                left, right = at + 4 * (x + k * inputs + i), at + 4 * (w + i * outputs + j)
                to = at + 4 * (y + k * outputs + j)
                add_tile(min(TALLEST, count - k), left, inputs, 1, right, outputs, to, outputs, length)


@ordered
def dense_back(f, w, d, dx, count, inputs, outputs):
    """The gradient of a dense layer's inputs; the bias row of `w` is not among the `inputs` rows."""
    whole = inputs - inputs % 4
    for i in range(0, whole, 4):
        at = w + i * outputs
        w0, w1 = part(f, at, outputs), part(f, at + outputs, outputs)
        w2, w3 = part(f, at + 2 * outputs, outputs), part(f, at + 3 * outputs, outputs)
        for k in range(count):
            p = dx + k * inputs + i
            f[p], f[p + 1], f[p + 2], f[p + 3] = four_dots(w0, w1, w2, w3, part(f, d + k * outputs, outputs))
    for i in range(whole, inputs):
        for k in range(count):
            f[dx + k * inputs + i] = dot(part(f, w + i * outputs, outputs), part(f, d + k * outputs, outputs))


@ordered
def outer(f, x, d, out, inputs, outputs):
    """The gradient of a dense layer's weights and bias, written out."""
    for i in range(inputs):
        row, slopes, factor = part(f, out + i * outputs, outputs), part(f, d, outputs), f[x + i]
        for j in range(outputs):
            row[j] = factor * slopes[j]


@ordered
def head(f, w, x, q, hidden, actions):
    """Q(s, .) from the last hidden layer; there is no bias."""
    values = part(f, q, actions)
    fill(values, ZERO)
    for i in range(hidden):
        add_row(values, f[x + i], part(f, w + i * actions, actions))


@ordered
def head_back(f, w, x, dq, dx, gradient, hidden, actions):
    """The gradients of the head's weights and inputs from that of its outputs."""
    slopes = part(f, dq, actions)
    for i in range(hidden):
        row, grad, total = part(f, w + i * actions, actions), gradient + i * actions, ZERO
        for b in range(actions):
            total += row[b] * slopes[b]
            f[grad + b] = f[x + i] * slopes[b]
        f[dx + i] = total
