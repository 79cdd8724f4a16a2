"""Convolutions, dense layers and activations, forwards and backwards."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered, summing
from headrace.engines.fast.kernels.rows import add_to
from headrace.engines.fast.kernels.vectors import BLOCK, ONE, ZERO, fill, total_of
from headrace.engines.fast.kernels.ways import (
    back_1,
    back_2,
    back_3,
    both_ways_4,
    inner,
    through_1,
    through_4,
    turn_block,
)
from headrace.engines.fast.native import (
    LANES,
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
STRETCH = 32  # inputs of a dense layer that several rows go through together


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
    # The smaller factor stays in the cache while the larger one goes by once.
    down, across = -(-rows // height), whole // TILE_COLUMNS
    for tile in range(down * across):
        i, j = (tile // across, tile % across) if rows > columns else (tile % down, tile // down)
        i, j = i * height, j * TILE_COLUMNS
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
    """The transpose of (rows, columns), with `step` numbers from a row of it to the next."""
    at, down, across = f.ctypes.data, rows - rows % LANES, columns - columns % LANES
    for j in range(0, across, LANES):
        for i in range(0, down, LANES):
            turn_block(at + 4 * (w + i * columns + j), columns, at + 4 * (out + j * step + i), step)
    for j in range(columns):
        for i in range(down if j < across else 0, rows):
            f[out + j * step + i] = f[w + i * columns + j]


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
    data = f.ctypes.data
    length = kernel_w * channels
    for r in range(rows):
        for c in range(columns):
            at = d + (r * columns + c) * step
            for i in range(kernel_h):
                start = out + ((r * stride_h + i) * width + c * stride_w) * channels
                add_to(data + 4 * start, ONE, data + 4 * at, length)
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
                if 0 < c < width - 1:
                    move(f, at, x + (row * width + c - 1) * channels, 3 * channels)
                else:
                    for j in range(3):
                        move(f, at + j * channels, x + (row * width + mirrored(c + j - 1, width)) * channels, channels)
                at += 3 * channels


@ordered
def mirrored_fold(f, d, step, out, height, width, channels, kept):
    """Adds the gradient of an image's first `kept` channels, from that of its 3x3 windows, reflected at the edges."""
    data = f.ctypes.data
    for r in range(height):
        for c in range(width):
            at = d + (r * width + c) * step
            for i in range(-1, 2):
                row = mirrored(r + i, height)
                if kept == channels and 0 < c < width - 1:
                    add_to(data + 4 * (out + (row * width + c - 1) * kept), ONE, data + 4 * at, 3 * kept)
                else:
                    for j in range(3):
                        start = out + (row * width + mirrored(c + j - 1, width)) * kept
                        add_to(data + 4 * start, ONE, data + 4 * (at + j * channels), kept)
                at += 3 * channels


@ordered
def join_action(f, n, z, out, pixels, channels, actions, action):
    """The latent with the one-hot action beside every pixel's channels."""
    for p in range(pixels):
        at = out + p * (channels + actions)
        move(f, at, z + p * channels, channels)
        fill(part(f, at + channels, actions), ZERO)
        f[at + channels + n[action]] = ONE


@ordered
def activate(f, y, bias, size, width, scale):
    """LayerNorm over all of `y` jointly, then LeakyReLU, in place; `bias` (none if negative) is added before.

    Long sums are taken by blocks and added up in double precision; 1 / deviation is kept for the way back.
    """
    at, total = f.ctypes.data, 0.0
    if bias >= 0:
        for start in range(y, y + size, width):
            add_to(at + 4 * start, ONE, at + 4 * bias, width)
    for start in range(y, y + size, BLOCK):
        total += total_of(part(f, start, min(BLOCK, y + size - start)))
    mean, total = np.float32(total / size), 0.0
    for start in range(y, y + size, BLOCK):
        total += centre(part(f, start, min(BLOCK, y + size - start)), mean)
    per_deviation = np.float32(1.0 / np.sqrt(total / size + LAYER_NORM_EPS))
    values = part(f, y, size)
    for j in range(size):
        normal = values[j] * per_deviation
        values[j] = normal if normal >= ZERO else SLOPE * normal
    f[scale] = per_deviation


@summing
def centre(values, mean):
    """Takes the mean away; gives the sum of squares that is left."""
    total = ZERO
    for j in range(values.size):
        centred = values[j] - mean
        values[j] = centred
        total += centred * centred
    return total


@ordered
def unactivate(f, a, d, size, width, scale):
    """The gradient before LeakyReLU and LayerNorm from that after them, in place; `a` is what `activate` gave."""
    total, along = 0.0, 0.0
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        some, some_along = go_up(part(f, a + start, length), part(f, d + start, length))
        total, along = total + some, along + some_along
    mean, mean_along, per_deviation = np.float32(total / size), np.float32(along / size), f[scale]
    outs, slopes = part(f, a, size), part(f, d, size)
    for j in range(size):
        normal = outs[j] if outs[j] >= ZERO else STEEP * outs[j]
        slopes[j] = per_deviation * (slopes[j] - mean - normal * mean_along)


@summing
def go_up(outs, slopes):
    """Slopes before LeakyReLU, in place; gives their sum, and that of their products with what it was given."""
    total, along = ZERO, ZERO
    for j in range(outs.size):
        normal = outs[j] if outs[j] >= ZERO else STEEP * outs[j]
        slope = slopes[j] if outs[j] >= ZERO else SLOPE * slopes[j]
        slopes[j] = slope
        total += slope
        along += slope * normal
    return total, along


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
    for k in range(count):
        go_through(f, w, outputs, x + k * inputs, y + k * outputs, inputs, outputs)


@ordered
def go_through(f, w, step, x, y, inputs, outputs):
    """y <- y + x w; the rows of w are `step` apart."""
    at, whole = f.ctypes.data, inputs - inputs % 4
    for i in range(0, whole, 4):
        through_4(at + 4 * (w + i * step), step, at + 4 * (x + i), at + 4 * y, outputs)
    for i in range(whole, inputs):
        through_1(at + 4 * (w + i * step), step, at + 4 * (x + i), at + 4 * y, outputs)


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
    at, whole = f.ctypes.data, inputs - inputs % 4
    for i in range(0, whole, 4):
        weights, k = at + 4 * (w + i * outputs), 0
        while k < count:
            slopes, to, left = at + 4 * (d + k * outputs), at + 4 * (dx + k * inputs + i), count - k
            if left >= 3:
                back_3(weights, outputs, slopes, to, inputs, outputs)
            elif left == 2:
                back_2(weights, outputs, slopes, to, inputs, outputs)
            else:
                back_1(weights, outputs, slopes, to, inputs, outputs)
            k += min(3, left)
    for i in range(whole, inputs):
        for k in range(count):
            f[dx + k * inputs + i] = inner(at + 4 * (w + i * outputs), at + 4 * (d + k * outputs), outputs)


@ordered
def dense_both_ways(f, w, x, y, d, dx, inputs, outputs):
    """One row forwards through a layer and another's gradient back, in one pass: as `dense` and `dense_back`."""
    fill(part(f, y, outputs), ZERO)
    go_both_ways(f, w, outputs, x, y, d, dx, inputs, outputs)
    at = f.ctypes.data
    through_1(at + 4 * (w + inputs * outputs), outputs, at + 4 * (x + inputs), at + 4 * y, outputs)  # the bias


@ordered
def go_both_ways(f, w, step, x, y, d, dx, inputs, outputs):
    """y <- y + x w and dx <- w . d, the rows of w being `step` apart: as `go_through` and `go_back`."""
    at, whole = f.ctypes.data, inputs - inputs % 4
    result, slopes = at + 4 * y, at + 4 * d
    for i in range(0, whole, 4):
        both_ways_4(at + 4 * (w + i * step), step, at + 4 * (x + i), result, slopes, at + 4 * (dx + i), outputs)
    for i in range(whole, inputs):
        through_1(at + 4 * (w + i * step), step, at + 4 * (x + i), result, outputs)
        f[dx + i] = inner(at + 4 * (w + i * step), slopes, outputs)


@ordered
def go_back(f, w, step, d, dx, inputs, outputs):
    """dx <- w . d, the rows of w being `step` apart."""
    at, whole = f.ctypes.data, inputs - inputs % 4
    for i in range(0, whole, 4):
        back_1(at + 4 * (w + i * step), step, at + 4 * d, at + 4 * (dx + i), inputs, outputs)
    for i in range(whole, inputs):
        f[dx + i] = inner(at + 4 * (w + i * step), at + 4 * d, outputs)


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
    for b in range(actions):
        total, other = ZERO, ZERO
        for i in range(0, hidden - 1, 2):
            total += f[x + i] * f[w + i * actions + b]
            other += f[x + i + 1] * f[w + (i + 1) * actions + b]
        if hidden % 2 == 1:
            total += f[x + hidden - 1] * f[w + (hidden - 1) * actions + b]
        f[q + b] = total + other


@ordered
def head_back(f, w, x, dq, dx, gradient, hidden, actions):
    """The gradients of the head's weights and inputs from that of its outputs."""
    fill(part(f, dx, hidden), ZERO)
    for b in range(actions):
        slope = f[dq + b]
        for i in range(hidden):
            f[dx + i] += f[w + i * actions + b] * slope
            f[gradient + i * actions + b] = f[x + i] * slope
