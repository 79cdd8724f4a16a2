"""What the tests of analyses share."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.analysis.records import find_runs
from headrace.analysis.scores import Group, groups
from tests.analysis.synthetic import store

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window. Where it is missing its tests are skipped, or fail where it was promised."""
    if CHROMIUM is None:
        why = "no Chromium on this machine, so the page was not opened: apt-get install chromium"
        (pytest.fail if os.environ.get("HEADRACE_NEEDS_BROWSER") else pytest.skip)(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield opened
        opened.close()


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
