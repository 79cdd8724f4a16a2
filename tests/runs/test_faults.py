"""Death at any moment and a full disk leave the old state or the new, and nothing half-written."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import (
    Diverged,
    HeadraceError,
    StorageFull,
)
from headrace.runs.folder import RunFolder
from tests.sweep.support import wait_until
from tests.toy_run import (
    STRIDE,
    arrays_at,
    assert_consistent,
    damage_by_truncating,
    names,
    opened,
    state_at,
    train,
)

ROOT = Path(__file__).parents[2]


class Killed(BaseException):
    """The process is no more: from here on it does nothing to the disk."""


class Death:
    """Lets `moment` system calls happen, then none; a write at the moment of death is half done."""

    CALLS = ("open", "write", "fsync", "replace", "unlink", "ftruncate")

    def __init__(self, patch: pytest.MonkeyPatch, moment: float) -> None:
        self.left = moment
        self.calls = 0
        for name in self.CALLS:
            patch.setattr(os, name, self.mortal(name, getattr(os, name)))

    def mortal(self, name, call):
        def wrapped(*arguments, **keywords):
            self.calls += 1
            self.left -= 1
            if self.left >= 0:
                return call(*arguments, **keywords)
            if self.left == -1 and name == "write":
                call(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise Killed

        return wrapped


def calls_of_one_checkpoint(tmp_path: Path) -> int:
    with opened(tmp_path / "count") as run, pytest.MonkeyPatch.context() as patch:
        train(run, 0, 2000)
        death = Death(patch, float("inf"))
        train(run, 2000, 3000)
    return death.calls


def test_death_at_any_point_of_a_checkpoint_leaves_the_old_state_or_the_new(tmp_path):
    moments = calls_of_one_checkpoint(tmp_path)
    outcomes = []
    for moment in range(moments + 1):
        path = tmp_path / str(moment)
        with opened(path) as run:
            train(run, 0, 2000)
        run = opened(path)
        run.resume()
        with pytest.MonkeyPatch.context() as patch:
            Death(patch, moment)
            if moment < moments:
                with pytest.raises(Killed):
                    train(run, 2000, 3000)
            else:
                train(run, 2000, 3000)
        run._lock.close()
        with opened(path) as run:
            found = run.resume()
            assert_consistent(run, found, {2000, 3000})
            assert run.notices == []
            outcomes.append(found.step if found else 0)
            train(run, outcomes[-1], 4000)
            assert_consistent(run, run.resume(), {4000})
            assert names(run) == ["step-000000003000.safetensors", "step-000000004000.safetensors"]
    assert moments > 12
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {2000, 3000}


def test_death_at_any_point_of_a_resume_is_resumed_from(tmp_path):
    with opened(tmp_path / "whole") as run:
        train(run, 0, 3500)
    damage_by_truncating(run.path / "checkpoints/step-000000003000.safetensors")
    for moment in range(1000):
        path = tmp_path / str(moment)
        shutil.copytree(tmp_path / "whole", path)
        run = opened(path)
        died = False
        with pytest.MonkeyPatch.context() as patch:
            Death(patch, moment)
            try:
                run.resume()
            except Killed:
                died = True
        run._lock.close()
        with opened(path) as run:
            assert_consistent(run, run.resume(), {2000})
        if not died:
            break
    assert moment > 5


TRAIN_FOR_EVER = """
import sys
from pathlib import Path
from tests.toy_run import opened, train
run = opened(Path(sys.argv[1]))
found = run.resume()
start = found.step if found else 0
print("training", flush=True)
train(run, start, 10**9)
"""


def test_sigkill_at_random_moments_loses_and_doubles_nothing(tmp_path):
    random, steps = np.random.default_rng(0), [0]
    for number in range(12):
        command = [sys.executable, "-c", TRAIN_FOR_EVER, str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as trainer:
            assert trainer.stdout is not None
            assert trainer.stdout.readline() == "training\n"
            if number == 0:  # however slow the disk is, something has been saved
                wait_until(lambda: any((tmp_path / "run/checkpoints").glob("step-*")), trainer)
            time.sleep(random.uniform(0, 0.1))
            trainer.send_signal(signal.SIGKILL)
        with opened(tmp_path) as run:
            found = run.resume()
            steps.append(found.step if found else 0)
            assert_consistent(run, found, set(range(0, 10**7, STRIDE)))
            assert run.notices == []
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]


class FullDisk:
    """A disk with room for `room` bytes more: like a real one it takes a part of a write before it refuses."""

    def __init__(self, patch: pytest.MonkeyPatch, room: int, code: int) -> None:
        self.room, self.code, self.write = room, code, os.write
        patch.setattr(os, "write", self)

    def __call__(self, opened: int, data: bytes) -> int:
        if self.room == 0 and len(data):
            raise OSError(self.code, os.strerror(self.code))
        written = self.write(opened, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("room", [0, 1, 30, 60, 90, 150, 300, 800])
def test_a_full_disk_is_named_and_leaves_nothing_half_written(tmp_path, room, code):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        before = {path: path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()}
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, room, code)
            with pytest.raises(StorageFull, match=r"bytes needed.*last good checkpoint.*intact") as error:
                train(run, 2000, 3000)
        assert error.value.needed > 0
        assert str(error.value.path) in str(error.value)
        after = {path: path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()}
        assert after.keys() == before.keys()
        for path, content in after.items():
            rows = content.removeprefix(before[path])
            assert content.startswith(before[path])
            assert rows == b"" or (path.suffix == ".csv" and rows.endswith(b"\n") and rows.count(b"\n") == 2)
        run.save_checkpoint(3000, arrays_at(3000), state_at(3000))
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {3000})


def test_a_full_disk_makes_no_run_and_no_manifest_is_lost(tmp_path, monkeypatch):
    with opened(tmp_path / "old") as run, monkeypatch.context() as patch:
        FullDisk(patch, 10, errno.ENOSPC)
        with pytest.raises(StorageFull):
            run.set_status("failed")
        patch.undo()
        assert RunFolder.read(run.path).status == run.status == "running"
    FullDisk(monkeypatch, 10, errno.ENOSPC)
    with pytest.raises(StorageFull, match="new/run"):
        opened(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_the_error_that_ended_a_run_is_not_hidden_by_a_full_disk(tmp_path, monkeypatch):
    def diverge() -> None:
        with opened(tmp_path) as run:
            run.append_episodes([(1, 1.0, 1)])
            FullDisk(monkeypatch, 0, errno.ENOSPC)
            raise Diverged("encoder weights", 1500)

    with pytest.raises(Diverged, match="step 1,500"):
        diverge()
    monkeypatch.undo()
    opened(tmp_path).close()


def limited_save(path: Path) -> None:
    run = opened(path)
    run.resume()
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    try:
        run.save_checkpoint(1000, {"w": np.zeros(1000)}, {})
    except StorageFull as error:
        print(error)


def test_a_real_file_size_limit_is_a_full_disk(tmp_path):
    script = f"from pathlib import Path; from {__name__} import limited_save; limited_save(Path({str(tmp_path)!r}))"
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "step-000000001000.safetensors" in said
    assert "File too large" in said
    with opened(tmp_path) as run:
        assert names(run) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(HeadraceError, match=r"below .*/file: it is a file, not a folder; name .* --out"):
            opened(folder)


def fsynced_path(opened_file: int) -> str:
    return os.readlink(f"/proc/self/fd/{opened_file}")


def noted(patch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with each call that makes something durable, visible or absent."""
    done: list[str] = []

    def note(name, path_of):
        call = getattr(os, name)

        def wrapped(*arguments):
            done.append(f"{name} {Path(path_of(*arguments)).name}")
            return call(*arguments)

        patch.setattr(os, name, wrapped)

    note("fsync", fsynced_path)
    note("replace", lambda _, target: target)
    note("rename", lambda _, target: target)
    note("unlink", lambda path: path)
    return done


def test_nothing_is_relied_on_before_it_is_durable(tmp_path, monkeypatch):
    """Rows before the checkpoint that counts them, its bytes before its name, its name before an old one goes."""
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        run.append_episodes([(2500, 1.0, 500)])
        done = noted(monkeypatch)
        run.save_checkpoint(3000, arrays_at(3000), state_at(3000))
        monkeypatch.undo()
    assert done == [
        "fsync episodes.csv",
        "fsync run",
        "fsync .step-000000003000.safetensors.tmp",
        "replace step-000000003000.safetensors",
        "fsync checkpoints",
        "unlink step-000000001000.safetensors",
    ]


def test_a_new_run_is_durable_under_its_name(tmp_path, monkeypatch):
    done = noted(monkeypatch)
    opened(tmp_path).close()
    monkeypatch.undo()
    (unfinished,) = (word for word in done if word.endswith(".new"))
    assert done[:4] == ["fsync manifest.json", unfinished, "rename run", f"fsync {tmp_path.name}"]
    assert unfinished.startswith("fsync .run.")


def test_a_run_is_finished_when_its_rows_are_durable(tmp_path, monkeypatch):
    with opened(tmp_path) as run:
        train(run, 0, 1000)
        run.append_metrics({"step": 1500, "return": 1.0, "td_error": 0.1})
        done = noted(monkeypatch)
        run.finish({})
        monkeypatch.undo()
    assert done == ["fsync metrics.csv", "fsync run", "fsync .manifest.json.tmp", "replace manifest.json", "fsync run"]
