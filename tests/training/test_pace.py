"""When a run is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.runs.folder import RunWriter
from headrace.training.pace import Pace, Speed
from tests.small_runs import WAYS, small_train


def test_checkpoints_by_steps_fall_on_multiples_each_once() -> None:
    pace = Pace(250, 60.0)
    assert [pace.limit(step) for step in (0, 40, 250)] == [250, 210, 250]
    pace.saved(40)
    assert [pace.due(step) for step in (41, 249, 250, 499)] == [False, False, True, True]
    pace.saved(250)
    assert not pace.due(499)


def test_a_run_is_saved_as_often_as_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, save = list[int](), RunWriter.save_checkpoint

    def noted(folder: RunWriter, step: int, *more: Any) -> None:
        saved.append(step)
        save(folder, step, *more)

    monkeypatch.setattr(RunWriter, "save_checkpoint", noted)
    monkeypatch.setattr(Speed, "steps_in", lambda self, seconds: 50)
    small_train(tmp_path, steps=1000, **WAYS["learner"])
    assert saved == [250, 500, 750, 1000, 1000]  # the last at its end
