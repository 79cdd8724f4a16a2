"""A report on real and synthetic runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.agents import VARIANTS
from headrace.analysis.report.folder import write_report
from headrace.runs import packs
from headrace.training.run import make_run
from headrace.training.single import Trained
from tests.analysis.synthetic import store, write_run

RESULTS = Path(__file__).parents[3] / "results" / "minatar_1m"
GAMES = ("minatar/breakout", "minatar/freeway")
EVIL = '<img src=x onerror="window.broken=1"></script><script>window.broken=1</script>'


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, finished_compiled: Trained) -> Path:
    """Real runs (one trained here, three packed ones) and synthetic ones of all nine variants. Do not change."""
    out = tmp_path_factory.mktemp("store") / "runs"
    store(out / "paper", (*VARIANTS, "qrc+curl"), GAMES, range(3))
    shutil.copytree(finished_compiled.path, out / finished_compiled.path.name)
    recorded = packs.load(RESULTS / packs.FILE)
    names = sorted(name for name in recorded if name.startswith("qrc_minatar-breakout_seed"))[:3]
    (out / "records").mkdir()
    (out / "records" / packs.FILE).write_bytes(packs.encode({name: recorded[name] for name in names}))
    evil = make_run("qrc", "minatar/breakout", seed=7, steps=5e6)
    write_run(out / "odd", evil, 3.0, status="failed", share=0.3, details={"cause": EVIL})
    going = make_run("qrc+spr", "minatar/breakout", seed=8, steps=5e6)
    write_run(out / "odd", going, 3.0, status="running", share=0.4)
    return out


@pytest.fixture(scope="session")
def report(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(runs, tmp_path_factory.mktemp("made") / "report").page.parent
