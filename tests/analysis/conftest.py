"""What the tests of analyses share."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from headrace.analysis.records import find_runs
from headrace.analysis.scores import Group, groups
from tests.analysis.synthetic import store


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def minatar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nine variants on five games, five seeds, 5M steps. Do not change it."""
    return store(tmp_path_factory.mktemp("minatar"))


@pytest.fixture(scope="session")
def group(minatar: Path) -> Group:
    (found,) = groups(find_runs(minatar).records)
    return found


@pytest.fixture(scope="session")
def rliable() -> types.SimpleNamespace:
    """The published package. Its dependency `arch` is given without its front page, which loads time-series models
    that current pandas breaks; its bootstrap needs none of them."""
    spec = importlib.util.find_spec("arch")
    assert spec is not None, "pip install -e '.[dev]' brings rliable"
    page = types.ModuleType("arch")
    page.__path__ = list(spec.submodule_search_locations or [])
    sys.modules.setdefault("arch", page)
    from rliable import library, metrics

    return types.SimpleNamespace(library=library, metrics=metrics)
