"""Peaks and the roofline made of them."""

from __future__ import annotations

import pytest

from headrace.bench.cost import Cost, Peaks, Product, measure_peaks, operand_bytes


def test_a_product_is_bound_by_operations_or_by_its_operands() -> None:
    peaks = Peaks(gflops=1.0, gbytes_per_s=1.0, blas_s=0.0)
    square, thin = Product(100, 100, 100), Product(1, 1000, 1000)
    assert operand_bytes(square) == 4 * 30_000
    assert peaks.limit_s(Cost((square,))) == pytest.approx(2e6 / 1e9)
    assert peaks.limit_s(Cost((thin,))) == pytest.approx(4 * 1_002_000 / 1e9)


def test_the_state_goes_in_and_out_and_outer_products_ride_along() -> None:
    peaks = Peaks(gflops=1.0, gbytes_per_s=2.0, blas_s=0.0)
    cost = Cost((Product(100, 100, 100, times=3),), (Product(10, 1, 10),), state_floats=1000)
    assert peaks.limit_s(cost) == pytest.approx(3 * 2e6 / 1e9 + 2 * 4 * 1000 / 2e9)


def test_measured_peaks_are_this_machines() -> None:
    """Between a pocket calculator and the fastest core there is."""
    peaks = measure_peaks(Cost((Product(64, 64, 64),), state_floats=100_000))
    assert 0.01 < peaks.gflops < 10_000
    assert 0.01 < peaks.gbytes_per_s < 10_000
    assert peaks.blas_s >= 0
