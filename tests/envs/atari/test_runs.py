"""Whole runs on Atari: stopped in mid-game and continued, they are the run that was never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.runs.folder import RunFolder
from headrace.training.single import Trained, train
from tests.small_runs import StopAt


def go(out: Path, sticky: float, progress: Any = None) -> Trained:
    settings = ["network=Conv((4,), ((8, 8),), ((8, 8),), 8)", f"env.sticky={sticky}"]
    return train("strq", "atari/boxing", steps=300, settings=settings, out=out, engine="learner", checkpoint_every=40,
                 progress=progress)  # fmt: skip


@pytest.mark.parametrize("sticky", [0.0, 0.9])
def test_a_run_resumes_exactly(sticky: float, tmp_path: Path) -> None:
    whole = go(tmp_path / "whole", sticky).path
    for stop in (45, 130, 210):
        path = go(tmp_path / "parts", sticky, StopAt(stop)).path
    assert go(tmp_path / "parts", sticky).status == "finished"
    one, other = RunFolder.read(whole).manifest, RunFolder.read(path).manifest
    assert len(other["resumed"]) == 3
    assert "exact" not in other
    assert one["digest"] == other["digest"]
