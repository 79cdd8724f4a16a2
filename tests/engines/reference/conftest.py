"""Kernels on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from headrace.engines.reference.fused import dense, many, passes, programs


@pytest.fixture(scope="module")
def interpreted() -> Iterator[None]:
    """An interpreter runs the kernels, and small matrices count as large.

    For all of a file, so that its tests share what they compile: programs made so are of no use to others."""
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "INTERPRET", True)
        patch.setattr(many, "LARGE", 512)
        for module in (passes, many):
            patch.setattr(module, "ROWS", 16)  # several programs for each matrix, and several turns of their loop
        for module in (passes, dense):
            patch.setattr(module, "ROWS_BESIDE", 32)
        for name in ("ONE", "FEW", "MORE", "BACK_ONE", "BACK_FEW"):
            patch.setattr(dense, name, dense.Piece(16, 16))
        yield
    jax.clear_caches()


@pytest.fixture
def fresh_programs() -> Iterator[None]:
    """For a test that changes what programs are made of."""
    jax.clear_caches()
    yield
    jax.clear_caches()
