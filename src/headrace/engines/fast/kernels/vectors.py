"""What is done to whole vectors."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import ordered, summing
from headrace.engines.fast.native import part

BLOCK = 1024  # numbers that are added up in single precision before double precision takes over
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
def total_of(x):
    total = ZERO
    for j in range(x.size):
        total += x[j]
    return total


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
def long_dot(f, a, b, size):
    """The inner product of two stretches: some numbers at a time in single precision, those sums in double."""
    total = 0.0
    for start in range(0, size, BLOCK):
        length = min(BLOCK, size - start)
        total += dot(part(f, a + start, length), part(f, b + start, length))
    return total
