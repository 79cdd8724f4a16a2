"""Dense layers and activations, forwards and backwards."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered, summing
from headrace.engines.fast.kernels.convolutions import tile_height
from headrace.engines.fast.kernels.rows import add_to
from headrace.engines.fast.kernels.vectors import BLOCK, ONE, ZERO, fill, total_of
from headrace.engines.fast.kernels.ways import (
    back_4,
    both_ways_4,
    inner,
    through_1,
    through_4,
    two_back_1,
    two_back_2,
    two_back_5,
    two_back_6,
)
from headrace.engines.fast.native import move, part
from headrace.engines.fast.tiles import TILE_COLUMNS, adding_1, adding_5, adding_6, fetch_lines

SLOPE, STEEP = np.float32(0.01), np.float32(100)  # of LeakyReLU below zero, and of its inverse
LAYER_NORM_EPS = 1e-5
# Weights of a dense layer that several rows go through together. Rows of them are often a power of two apart, and then
# a cache of 32 KB in eight ways has room for one line of each row of 32 KB of them, whatever the row's length.
AT_ONCE = 8192


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
def rectify(f, y, size):
    """ReLU, in place."""
    values = part(f, y, size)
    for j in range(size):
        values[j] = ZERO if values[j] <= ZERO else values[j]


@ordered
def unrectify(f, a, d, size):
    """The gradient before ReLU from that after it, in place; `a` is what `rectify` gave."""
    outs, slopes = part(f, a, size), part(f, d, size)
    for j in range(size):
        slopes[j] = slopes[j] if outs[j] > ZERO else ZERO


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
def adding(height, a, a_step, inner, b, b_step, c, c_step):
    if height == 6:
        adding_6(a, a_step, inner, b, b_step, c, c_step)
    elif height == 5:
        adding_5(a, a_step, inner, b, b_step, c, c_step)
    else:
        adding_1(a, a_step, inner, b, b_step, c, c_step)


@ordered
def dense_together(f, w, x, y, count, inputs, outputs):
    """The rows in tiles, for some of the layer's inputs at a time: those weights stay in the cache for all rows."""
    stretch = max(AT_ONCE // outputs, 1)
    for i in range(0, inputs, stretch):
        stretch_through(f, w + i * outputs, x + i, y, count, min(stretch, inputs - i), inputs, outputs)


@ordered
def stretch_through(f, w, x, y, count, length, inputs, outputs):
    """y <- y + x w for some of the inputs, while memory is asked for the weights of those that come next."""
    at = f.ctypes.data
    for j in range(0, outputs, TILE_COLUMNS):
        weights, k = at + 4 * (w + j), 0
        fetch_lines(weights + 4 * length * outputs, outputs, length)
        while k < count:
            height, own, to = tile_height(count - k), at + 4 * (x + k * inputs), at + 4 * (y + k * outputs + j)
            adding(height, own, inputs, length, weights, outputs, to, outputs)
            k += height


@ordered
def dense_back(f, w, d, dx, count, inputs, outputs):
    """The gradient of a dense layer's inputs; the bias row of `w` is not among the `inputs` rows."""
    if count == 1:
        go_back(f, w, outputs, d, dx, inputs, outputs)
        return
    at, half = f.ctypes.data, inputs // 2
    for i in range(half):  # in both halves of the layer: memory gives more to two who read far from each other
        weights, k = at + 4 * (w + i * outputs), 0
        while k < count:
            slopes, to = at + 4 * (d + k * outputs), at + 4 * (dx + k * inputs + i)
            k += two_rows_back(count - k, weights, slopes, to, inputs, outputs, half)
    for i in range(2 * half, inputs):
        for k in range(count):
            f[dx + k * inputs + i] = inner(at + 4 * (w + i * outputs), at + 4 * (d + k * outputs), outputs)


@ordered
def two_rows_back(left, w, d, dx, inputs, outputs, apart):
    """As many of the slopes that are left as go together; gives how many."""
    if left >= 6:
        two_back_6(w, d, dx, inputs, outputs, apart)
        return 6
    if left == 5:
        two_back_5(w, d, dx, inputs, outputs, apart)
        return 5
    if left >= 2:
        two_back_2(w, d, dx, inputs, outputs, apart)
        return 2
    two_back_1(w, d, dx, inputs, outputs, apart)
    return 1


@ordered
def dense_both_ways(f, w, x, y, count, d, dx, inputs, outputs):
    """`count` rows forwards through a layer and another's gradient back, in one pass: as `dense` and `dense_back`."""
    fill(part(f, y, count * outputs), ZERO)
    if count > 1 and outputs % TILE_COLUMNS == 0:
        together_both_ways(f, w, x, y, count, d, dx, inputs, outputs)
        return
    go_both_ways(f, w, outputs, x, y, d, dx, inputs, outputs)
    at = f.ctypes.data
    through_1(at + 4 * (w + inputs * outputs), outputs, at + 4 * (x + inputs), at + 4 * y, outputs)  # the bias
    for k in range(1, count):
        go_through(f, w, outputs, x + k * (inputs + 1), y + k * outputs, inputs + 1, outputs)


@ordered
def together_both_ways(f, w, x, y, count, d, dx, inputs, outputs):
    """As `dense_together` and `go_back`."""
    stretch = max(AT_ONCE // outputs // 4, 1) * 4  # `go_back` takes four at a time
    for i in range(0, inputs + 1, stretch):
        stretch_through(f, w + i * outputs, x + i, y, count, min(stretch, inputs + 1 - i), inputs + 1, outputs)
        if i < inputs:
            go_back(f, w + i * outputs, outputs, d, dx + i, min(stretch, inputs - i), outputs)


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
        back_4(at + 4 * (w + i * step), step, at + 4 * d, at + 4 * (dx + i), outputs)
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
