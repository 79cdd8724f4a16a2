"""What is done to whole vectors."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered, summing

ZERO, ONE = np.float32(0), np.float32(1)


@ordered
def fill(x, value):
    for j in range(x.size):
        x[j] = value


@ordered
def renew(old, keep, take, new):
    """old <- keep old + take new."""
    for j in range(old.size):
        old[j] = keep * old[j] + take * new[j]


@summing
def dot(a, b):
    total = ZERO
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@ordered
def add_row(y, x, row):
    for j in range(y.size):
        y[j] += x * row[j]


@ordered
def add_four_rows(y, x0, x1, x2, x3, w0, w1, w2, w3):
    """As four times `add_row`, to the bit, with one pass over `y`."""
    for j in range(y.size):
        y[j] = (((y[j] + x0 * w0[j]) + x1 * w1[j]) + x2 * w2[j]) + x3 * w3[j]


@summing
def four_dots(w0, w1, w2, w3, d):
    s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
    for j in range(d.size):
        s0 += w0[j] * d[j]
        s1 += w1[j] * d[j]
        s2 += w2[j] * d[j]
        s3 += w3[j] * d[j]
    return s0, s1, s2, s3
