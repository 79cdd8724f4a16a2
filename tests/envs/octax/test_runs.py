"""Whole runs on Octax: stopped in mid-episode and continued, they are the run that was never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.runs.folder import RunFolder
from headrace.training.single import Trained, train
from tests.small_runs import StopAt, assert_same_result


def go(out: Path, engine: str, progress: Any = None) -> Trained:
    settings = ["network=Conv((4,), ((4, 8),), ((4, 8),), 8)"]
    return train("strq", "octax/deep", steps=160, settings=settings, out=out, engine=engine, checkpoint_every=40,
                 progress=progress)  # fmt: skip


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")
@pytest.mark.parametrize("engine", ["learner", pytest.param("reference", marks=pytest.mark.long)])
def test_a_run_resumes_exactly(engine: str, programs: Path, tmp_path: Path) -> None:
    """On the host, step by step, and compiled with its agent."""
    whole = go(tmp_path / "whole", engine).path
    path = go(tmp_path / "parts", engine, StopAt(70)).path
    assert go(tmp_path / "parts", engine).status == "finished"
    folder = RunFolder.read(path)
    (resumed,) = folder.manifest["resumed"]
    assert "exact" not in folder.manifest
    ends = folder.episodes()["step"]
    assert ends.min() < resumed["step"] < ends.max()
    assert resumed["step"] not in ends
    assert_same_result(path, whole)
