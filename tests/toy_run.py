"""A run so simple that what its folder must hold can be said for every step."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from headrace.runs import checkpoints
from headrace.runs.folder import RunFolder, RunWriter

IDENTITY = {"agent": {"td": {"kind": "Qrc", "lr": 1e-4}}, "environment": "minatar/breakout", "seed": 0, "steps": 9000}
STRIDE = 1000  # steps between two checkpoints of the toy run


def opened(path: Path, **changes: object) -> RunWriter:
    return RunFolder.open(path / "run", {**IDENTITY, **changes}, {"machine": {"cores": 2}})


# A toy run: at step s its array is s * [0, 1, 2], and it has one episode and one logged point for each 500 steps.


def arrays_at(step: int) -> dict[str, np.ndarray]:
    return {"params/w": step * np.arange(3, dtype=np.float32), "count": np.array(step)}


def state_at(step: int) -> dict:
    return {"episodes": step // 500, "open_return": step / 3, "random": 2**127 + step}


def train(run: RunWriter, start: int, end: int) -> None:
    """Steps from `start` to `end`, with a checkpoint at each multiple of STRIDE."""
    for step in range(start + 500, end + 1, 500):
        run.append_episodes([(step, step / 7, 500)])
        run.append_metrics({"step": step, "return": step / 7, "td_error": 1 / step})
        run.append_speed(step, 1000.0, time.monotonic())
        if step % STRIDE == 0:
            run.save_checkpoint(step, arrays_at(step), state_at(step))


def assert_consistent(run: RunWriter, found: checkpoints.Checkpoint | None, allowed: set[int]) -> None:
    """What resume gave is the toy run at one of the allowed steps (0: anew), and the tables hold its rows only."""
    step = found.step if found else 0
    assert step in allowed
    if found:
        assert found.state == state_at(step)
        assert found.arrays.keys() == arrays_at(step).keys()
        assert all(np.array_equal(found.arrays[name], value) for name, value in arrays_at(step).items())
    expected = list(range(500, step + 1, 500))
    assert run.episodes()["step"].tolist() == run.metrics().get("step", np.empty(0)).tolist() == expected
    assert run.episodes()["return"].tolist() == [s / 7 for s in expected]
    assert [line.count(",") for line in (run.path / "speed.csv").read_text().splitlines()[1:]] == [2] * len(expected)


def names(run: RunFolder) -> list[str]:
    return sorted(path.name for path in (run.path / "checkpoints").iterdir())


def damage_by_truncating(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)
