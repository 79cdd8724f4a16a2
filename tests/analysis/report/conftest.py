"""A report on real and synthetic runs, and a browser to open it with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.agents import VARIANTS
from headrace.analysis.report.folder import write_report
from headrace.run import make_run
from headrace.training import Trained
from tests.analysis.synthetic import store, write_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RESULTS = Path(__file__).parents[3] / "results" / "minatar_1m"
GAMES = ("minatar/breakout", "minatar/freeway")
EVIL = '<img src=x onerror="window.broken=1"></script><script>window.broken=1</script>'


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


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, finished_compiled: Trained) -> Path:
    """Real runs (one trained here, three records of an H200) and synthetic ones of all nine variants. Do not change."""
    out = tmp_path_factory.mktemp("store") / "runs"
    store(out / "paper", (*VARIANTS, "qrc+curl"), GAMES, range(3))
    shutil.copytree(finished_compiled.path, out / finished_compiled.path.name)
    for record in sorted(RESULTS.glob("qrc_minatar-breakout_seed*"))[:3]:
        shutil.copytree(record, out / "records" / record.name)
    evil = make_run("qrc", "minatar/breakout", seed=7, steps=5e6)
    write_run(out / "odd", evil, 3.0, status="failed", share=0.3, details={"cause": EVIL})
    going = make_run("qrc+spr", "minatar/breakout", seed=8, steps=5e6)
    write_run(out / "odd", going, 3.0, status="running", share=0.4)
    return out


@pytest.fixture(scope="session")
def report(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(runs, tmp_path_factory.mktemp("made") / "report").page.parent
