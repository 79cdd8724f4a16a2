"""The least time that a step could take on this machine, measured with BLAS products of its shapes and with a copy.

The limit of a step is a roofline: each product takes at least as long as its operations at the best rate at which BLAS
does any of them or a square one, and as its operands at the rate of a copy; then the state goes in and out once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headrace.bench.cost import FLOAT, Cost, Product

REPEATS = 7
PATIENCE = 0.005  # seconds that one repeat should last at least
CLEAR = 5.0  # a product is timed well if it takes that many times as long as calling it
SQUARE = Product(256, 256, 256)


class Peaks(NamedTuple):
    gflops: float  # the best rate of BLAS
    gbytes_per_s: float  # of a copy within an array as large as the state, reading and writing counted
    blas_s: float  # seconds that BLAS takes for all products of a step, as they are

    def limit_s(self, cost: Cost) -> float:
        """Seconds that a step takes at the very least."""
        products = sum(product.times * self._product_s(product) for product in cost.products)
        return products + cost.state_bytes / (self.gbytes_per_s * 1e9)

    def _product_s(self, product: Product) -> float:
        operations = product.operations / product.times
        return max(operations / (self.gflops * 1e9), operand_bytes(product) / (self.gbytes_per_s * 1e9))


def operand_bytes(product: Product) -> int:
    """Of both factors and of the result."""
    rows, inner, columns, _ = product
    return FLOAT * (rows * inner + inner * columns + rows * columns)


def measure_peaks(cost: Cost) -> Peaks:
    """Needs BLAS to have one thread, as the process of a benchmark has."""
    tiny = np.ones((1, 1), np.float32)
    calling = seconds_of(lambda: np.matmul(tiny, tiny, out=tiny))
    shapes = {product._replace(times=1.0) for product in (*cost.products, SQUARE)}
    found = {shape: _product_seconds(shape) for shape in shapes}
    best = max(shape.operations / (s - calling) for shape, s in found.items() if s > CLEAR * calling)
    blas = sum(product.times * max(0.0, found[product._replace(times=1.0)] - calling) for product in cost.products)
    return Peaks(best / 1e9, _copied(cost.state_floats) / 1e9, blas)


def _product_seconds(product: Product) -> float:
    random = np.random.default_rng(0)
    left, right = random.random((product.rows, product.inner)), random.random((product.inner, product.columns))
    a, b = left.astype(np.float32), right.astype(np.float32)
    out = np.empty((product.rows, product.columns), np.float32)
    return seconds_of(lambda: np.matmul(a, b, out=out))


def _copied(floats: int) -> float:
    """Bytes per second, read and written, when one half of so many floats is copied to the other."""
    state = np.ones(max(2, floats), np.float32)
    half = len(state) // 2
    source, target = state[:half], state[half : 2 * half]
    return 2 * FLOAT * half / seconds_of(lambda: np.copyto(target, source))


def seconds_of(do: Callable[[], object]) -> float:
    """Seconds of one call at its best: the least of some repeats, each of enough calls to be timed."""
    do()
    calls = max(1, int(PATIENCE / max(_timed(do, 1), 1e-7)))
    return min(_timed(do, calls) for _ in range(REPEATS))


def _timed(do: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        do()
    return (time.perf_counter() - began) / calls
