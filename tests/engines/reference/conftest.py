"""Kernels on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from headrace.engines.reference.fused import dense, many, passes, programs


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An interpreter runs the kernels, and small matrices count as large."""
    monkeypatch.setattr(programs, "INTERPRET", True)
    monkeypatch.setattr(many, "LARGE", 512)
    for module in (passes, many):
        monkeypatch.setattr(module, "ROWS", 16)  # several programs for each matrix, and several turns of their loop
    for module in (passes, dense):
        monkeypatch.setattr(module, "ROWS_BESIDE", 32)
    for name in ("ONE", "FEW", "MORE", "BACK_ONE", "BACK_FEW"):
        monkeypatch.setattr(dense, name, dense.Piece(16, 16))
    yield
    jax.clear_caches()
