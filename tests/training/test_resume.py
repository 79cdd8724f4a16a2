"""A run continues from its newest good checkpoint, with its own rows and no others."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from headrace.errors import (
    HeadraceError,
)
from headrace.runs import checkpoints, manifest
from headrace.runs.folder import RunFolder
from tests.toy_run import (
    IDENTITY,
    arrays_at,
    assert_consistent,
    damage_by_truncating,
    names,
    opened,
    state_at,
    train,
)


def failing(code: int, call, suffix: str):
    def wrapped(path, *arguments, **keywords):
        if str(path).endswith(suffix):
            raise OSError(code, os.strerror(code), str(path))
        return call(path, *arguments, **keywords)

    return wrapped


def test_a_run_continues_from_its_newest_checkpoint_with_its_rows_only(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 3500)
        run.flush()
        assert run.episodes()["step"][-1] == 3500
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {3000})
        assert run.notices == []
        train(run, 3000, 5000)
        assert names(run) == ["step-000000004000.safetensors", "step-000000005000.safetensors"]
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {5000})


def test_a_run_killed_before_its_first_checkpoint_starts_anew(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 500)
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {0})
        assert run.notices == []
        train(run, 0, 1000)
    assert_consistent(run, RunFolder.read(run.path).latest(), {1000})


def damage_by_emptying(path: Path) -> None:
    os.truncate(path, 0)


def damage_by_a_flipped_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def replace_by_another_runs(path: Path) -> None:
    saved = checkpoints.Saved(checkpoints.Checkpoint(3000, arrays_at(3000), state_at(3000)), {})
    path.write_bytes(checkpoints.encode(manifest.identity_hash({**IDENTITY, "seed": 1}), saved))


def replace_by_an_older_ones_copy(path: Path) -> None:
    shutil.copy(path.with_name("step-000000002000.safetensors"), path)


def replace_by_a_foreign_file(path: Path) -> None:
    path.write_bytes(checkpoints.safetensors_io.dumps(arrays_at(3000), {"format": "pt"}))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damage_by_truncating, "truncated|bytes"),
        (damage_by_emptying, "truncated"),
        (damage_by_a_flipped_bit, "checksum"),
        (replace_by_another_runs, "another run"),
        (replace_by_an_older_ones_copy, "holds step 2000"),
        (replace_by_a_foreign_file, "not written by headrace"),
    ],
)
def test_a_bad_checkpoint_is_passed_over_and_kept_aside(tmp_path, damage, reason):
    with opened(tmp_path) as run:
        train(run, 0, 3000)
    damage(run.path / "checkpoints/step-000000003000.safetensors")
    reader = RunFolder.read(run.path)
    latest = reader.latest()
    assert latest is not None
    assert (latest.step, len(reader.notices)) == (2000, 1)
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {2000})
        (notice,) = run.notices
        assert "step-000000003000.safetensors passed over" in notice
        assert any(word in notice for word in reason.split("|"))
        assert names(run) == ["step-000000002000.safetensors", "step-000000003000.safetensors.damaged"]
        train(run, 2000, 3000)
        assert_consistent(run, run.resume(), {3000})


def test_without_a_good_checkpoint_the_run_starts_anew_and_loses_nothing(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 3000)
    rows = (run.path / "episodes.csv").read_bytes()
    for path in (run.path / "checkpoints").iterdir():
        damage_by_truncating(path)
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {0})
        assert len(run.notices) == 3
        assert (run.path / "episodes.csv.damaged").read_bytes() == rows


@pytest.mark.parametrize("table", ["episodes.csv", "metrics.csv"])
def test_rows_lost_from_before_a_checkpoint_make_it_useless(tmp_path, table):
    with opened(tmp_path) as run:
        train(run, 0, 3000)
    os.truncate(run.path / table, (run.path / table).stat().st_size - 1)
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {2000})
        assert run.notices == [
            f"checkpoint step-000000003000.safetensors passed over: {table} lost or changed rows from before it"
        ]


def test_rows_changed_from_before_a_checkpoint_make_it_useless(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 3000)
    table = run.path / "episodes.csv"
    table.write_bytes(table.read_bytes().replace(b"\n", b"\r\n"))
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {0})


def test_a_lost_clock_costs_nothing(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 3000)
    (run.path / "speed.csv").unlink()
    with opened(tmp_path) as run:
        found = run.resume()
        assert found is not None
        assert found.step == 3000
        assert run.notices == [
            "speed.csv was changed: it begins anew, and what is left of it is kept as speed.csv.damaged"
        ]


def test_a_temporary_file_of_a_killed_process_is_cleared_away(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 1000)
    stale = [run.path / "checkpoints/.step-000000002000.safetensors.tmp", run.path / ".manifest.json.tmp"]
    for path in stale:
        path.write_bytes(b"half")
    with opened(tmp_path) as run:
        assert not any(path.exists() for path in stale)
        stale[0].write_bytes(b"half")
        assert_consistent(run, run.resume(), {1000})
        train(run, 1000, 2000)
        assert names(run) == ["step-000000001000.safetensors", "step-000000002000.safetensors"]


def test_a_reader_outlives_the_removal_of_the_checkpoint_it_chose(tmp_path, monkeypatch):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        load = checkpoints.load
        gone: list[Path] = []

        def load_after_the_writer_went_on(path: Path, run_hash: str) -> checkpoints.Saved:
            if not gone:
                gone.append(path)
                path.unlink()
            return load(path, run_hash)

        monkeypatch.setattr(checkpoints, "load", load_after_the_writer_went_on)
        latest = RunFolder.read(run.path).latest()
        assert latest is not None
        assert latest.step == 1000


def test_a_disk_that_fails_to_answer_is_no_damage(tmp_path, monkeypatch):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
    monkeypatch.setattr(Path, "open", failing(errno.EIO, Path.open, ".safetensors"))
    with opened(tmp_path) as run:
        with pytest.raises(HeadraceError, match=r"cannot read .*Input/output error"):
            run.resume()
        assert names(run) == ["step-000000001000.safetensors", "step-000000002000.safetensors"]
