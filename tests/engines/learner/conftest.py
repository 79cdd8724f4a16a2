"""Long tests compile hundreds of programs, and a process has room for so many pieces of compiled code only."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def programs_of_long_tests_are_let_go(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if request.node.get_closest_marker("long"):
        jax.clear_caches()
