"""Snapshots: which steps, what is kept, and that a run keeps them whatever happens to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.errors import CheckpointDamaged
from headrace.runs import snapshots
from headrace.runs.folder import RunFolder
from headrace.runs.manifest import footprint, peak_memory_mb
from headrace.training.pace import LOG_EVERY
from tests.small_runs import StopAt, small_train

ARRAYS = {
    "stream/agent/params/encoder/0/w": np.full((2, 2), 2.0, np.float32),
    "stream/agent/params/head/0/w": np.full(9, 1.0, np.float32),
    "stream/agent/td/trace": np.ones(5, np.float32),
    "stream/obs_scale/mean": np.zeros(3, np.float32),
}


def test_a_run_of_the_papers_length_is_looked_at_five_times():
    assert sorted(snapshots.steps_of(5_000_000)) == [0, 1_250_000, 2_500_000, 3_750_000, 5_000_000]


@pytest.mark.parametrize("total", [1, 999, 1000, 3000, 12_345, 5_000_000])
def test_every_snapshot_falls_where_a_run_looks_up(total):
    steps = snapshots.steps_of(total)
    assert {0, total} <= steps
    assert all(step == total or step % LOG_EVERY == 0 for step in steps)
    assert max(steps) == total
    assert snapshots.due(total, total)
    assert not snapshots.due(total + 1, total)


def test_encoder_scale_and_norms_are_kept_and_nothing_else():
    found = snapshots.decode(snapshots.encode(7, ARRAYS))
    assert found.step == 7
    assert set(found.arrays) == {"stream/agent/params/encoder/0/w", "stream/obs_scale/mean"}
    assert found.norms == {"encoder": 4.0, "head": 3.0}


def test_what_is_no_snapshot_is_said():
    from headrace.runs import safetensors_io

    with pytest.raises(CheckpointDamaged):
        snapshots.decode(b"nothing of the kind")
    with pytest.raises(CheckpointDamaged, match="no snapshot"):
        snapshots.decode(safetensors_io.dumps({}, {}))


def test_a_run_keeps_them_and_says_what_it_needed(finished_compiled):
    path = finished_compiled.path
    kept = [snapshots.decode(file.read_bytes()) for file in snapshots.listed(path)]
    assert [snapshot.step for snapshot in kept] == sorted(snapshots.steps_of(3000))
    folder = RunFolder.read(path)
    last = folder.latest().arrays
    np.testing.assert_array_equal(kept[-1].arrays[_ENCODER], last[_ENCODER])
    assert (kept[0].arrays[_ENCODER] != last[_ENCODER]).any()
    assert folder.manifest["parameters"] == footprint(last)["parameters"] > 100
    assert folder.manifest["peak_memory_mb"] > 10


_ENCODER = "stream/agent/params/encoder/0/w"


def test_a_run_that_was_stopped_has_the_same_ones(finished_compiled, tmp_path: Path):
    small_train(tmp_path, progress=StopAt(1500))
    resumed = small_train(tmp_path)
    for ours, theirs in zip(snapshots.listed(resumed.path), snapshots.listed(finished_compiled.path), strict=True):
        assert ours.read_bytes() == theirs.read_bytes()


def test_memory_is_counted_in_megabytes():
    assert 10 < peak_memory_mb() < 1e6
