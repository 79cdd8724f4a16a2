"""A run's folder: made whole, written by one process, read by any, continued exactly."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from headrace.errors import (
    HeadraceError,
    RunConflict,
)
from headrace.runs import checkpoints, folder as store, lock as lock_module
from headrace.runs.files import temporary_name, write_atomically
from headrace.runs.folder import RunFolder, Score, score
from headrace.runs.lock import claim, is_held
from tests.toy_run import (
    IDENTITY,
    opened,
    train,
)


def test_a_new_folder_is_complete_and_names_its_maker(tmp_path):
    with opened(tmp_path) as run:
        assert {path.name for path in run.path.iterdir()} == {
            "manifest.json", "episodes.csv", "metrics.csv", "speed.csv", "checkpoints", "lock",
        }  # fmt: skip
        assert run.resume() is None
    facts = json.loads((tmp_path / "run/manifest.json").read_text())
    assert (facts["identity"], facts["machine"], facts["status"]) == (IDENTITY, {"cores": 2}, "running")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_empty_folder_becomes_a_run(tmp_path):
    (tmp_path / "run").mkdir()
    with opened(tmp_path) as run:
        assert run.status == "running"


def test_another_runs_folder_is_refused_with_both_values(tmp_path):
    opened(tmp_path).close()
    other = {"td": {"kind": "Qrc", "lr": 0.01}}
    with pytest.raises(RunConflict, match=r"agent\.td\.lr: the folder has 0\.0001, this run has 0\.01") as error:
        opened(tmp_path, agent=other, seed=1)
    assert "seed: the folder has 0, this run has 1" in str(error.value)
    assert "environment" not in str(error.value)
    with pytest.raises(RunConflict, match="replay: the folder has nothing, this run has 5"):
        opened(tmp_path, replay=5)


def test_a_foreign_folder_or_file_is_refused_and_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/thesis.tex").write_text("years of work")
    with pytest.raises(RunConflict, match="not empty and is not a run"):
        opened(tmp_path)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.tex"]
    with pytest.raises(RunConflict, match="is a file"):
        RunFolder.open(tmp_path / "run/thesis.tex", IDENTITY, {})


def test_a_killed_creation_leaves_no_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("headrace.runs.lock.os.rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr("headrace.runs.lock.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".run.")
    assert left.name.endswith(".new")
    os.utime(left, (0, 0))
    opened(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_manifest_follows_the_run(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 1000)
        run.set_status("interrupted", seconds=12)
        assert RunFolder.read(run.path).manifest["end"] is not None
    with RunFolder.open(tmp_path / "run", IDENTITY, {"machine": {"cores": 64}}) as run:
        assert run.status == "interrupted"
        run.resume()
        assert (run.status, run.manifest["end"], run.manifest["machine"]) == ("running", None, {"cores": 2})
        (resumed,) = run.manifest["resumed"]
        assert (resumed["step"], resumed["machine"]) == (1000, {"cores": 64})
        run.finish({"score": 3.5})
    again = RunFolder.read(tmp_path / "run")
    assert (again.status, again.manifest["score"], again.manifest["seconds"]) == ("finished", 3.5, 12)
    with pytest.raises(ValueError, match="'done'"):
        run.set_status("done")
    with pytest.raises(ValueError, match="identity"):
        run.set_status("failed", identity={})


def test_opening_a_finished_run_changes_nothing(tmp_path):
    with opened(tmp_path) as run:
        run.finish({})
    before = {path.name: path.read_bytes() for path in run.path.glob("*.*")}
    with opened(tmp_path) as run:
        assert run.status == "finished"
    assert {path.name: path.read_bytes() for path in run.path.glob("*.*")} == before


def test_what_is_no_run_is_said_plainly(tmp_path):
    with pytest.raises(HeadraceError, match="nowhere does not exist"):
        RunFolder.read(tmp_path / "nowhere")
    with pytest.raises(HeadraceError, match=r"is not a run: it has no manifest\.json"):
        RunFolder.read(tmp_path)
    opened(tmp_path).close()
    with pytest.raises(HeadraceError, match="is not a run but holds some: run"):
        RunFolder.read(tmp_path)
    for content, reason in [("{", "not a run's manifest"), ('{"format": 99, "identity": {}}', "has format 99")]:
        (tmp_path / "run/manifest.json").write_text(content)
        with pytest.raises(HeadraceError, match=reason):
            RunFolder.read(tmp_path / "run")


HOLD = """
import sys
from headrace.runs.folder import RunFolder
run = RunFolder.open(sys.argv[1], {}, {})
print("held", flush=True)
sys.stdin.read()
"""


def test_two_processes_never_write_one_run_and_a_dead_one_holds_nothing(tmp_path):
    path = tmp_path / "run"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunConflict, match=rf"another process \(pid {holder.pid}\) is training the run"):
            RunFolder.open(path, {}, {})
        assert RunFolder.read(path).status == "running"
        holder.kill()
        holder.wait()
        assert RunFolder.read(path).status == "interrupted"  # though nobody was left to write so
    RunFolder.open(path, {}, {}).close()


def test_a_lock_whose_file_was_removed_is_nobodys(tmp_path, monkeypatch):
    """Whoever holds a lock may remove its file; another who had opened it by then must not believe that he holds it."""
    first, real = claim(tmp_path), lock_module._lock_patiently

    def after_the_first_is_gone(lock):
        if not first.closed:
            (tmp_path / "lock").unlink()
            first.close()
        real(lock)

    monkeypatch.setattr(lock_module, "_lock_patiently", after_the_first_is_gone)
    with claim(tmp_path), pytest.raises(RunConflict):
        claim(tmp_path)


def test_a_process_of_another_machine_is_named_with_it(tmp_path):
    path = tmp_path / "run"
    with RunFolder.open(path, {}, {}):
        (path / "lock").write_text("77 faraway")
        with pytest.raises(RunConflict, match=r"another process \(pid 77 on faraway\) is training the run"):
            RunFolder.open(path, {}, {})


def test_one_process_cannot_open_a_run_twice(tmp_path):
    with opened(tmp_path), pytest.raises(RunConflict, match=f"pid {os.getpid()}"):
        opened(tmp_path)
    opened(tmp_path).close()


def test_a_lock_is_not_had_beside_somebody_who_looks_at_it(tmp_path):
    with (tmp_path / "lock").open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        with pytest.raises(RunConflict):
            claim(tmp_path)
    claim(tmp_path).close()


def test_numbers_keep_every_bit_and_integers_stay_integers(tmp_path):
    values = [0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("nan"), float(np.float32(0.1))]
    with opened(tmp_path) as run:
        for step, value in enumerate(values):
            single = np.float32(np.sin(step))
            row = {"step": np.int64(10**15 + step), "value": value, "single": single, "count": np.array(step)}
            run.append_metrics(row)
        read = run.metrics()
        assert read["value"].tobytes() == np.array(values).tobytes()
        assert np.array_equal(read["single"].astype(np.float32), np.sin(np.arange(8)).astype(np.float32))
        assert read["step"].dtype == read["count"].dtype == np.int64
        assert read["step"][-1] == 10**15 + 7
    assert (run.path / "metrics.csv").read_text().splitlines()[1] == "1000000000000000,0.1,0.0,0"


def test_an_episode_is_a_line(tmp_path):
    with opened(tmp_path) as run:
        assert {name: column.dtype for name, column in run.episodes().items()} == {
            "step": np.int64, "return": np.float64, "length": np.int64,
        }  # fmt: skip
        run.append_episodes([(12, 3, 12), (20, 1.5, 8)])
        run.append_speed(20, 1000, 2)
    assert (run.path / "episodes.csv").read_text() == "step,return,length\n12,3.0,12\n20,1.5,8\n"
    assert (run.path / "speed.csv").read_text() == "step,steps_per_s,seconds\n20,1000.0,2.0\n"


def test_the_first_row_fixes_the_columns_also_after_a_resume(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 1000)
        with pytest.raises(ValueError, match=r"'td_error'.*this row has \['step', 'return'\]"):
            run.append_metrics({"step": 1500, "return": 1.0})
    with opened(tmp_path) as run:
        run.resume()
        run.append_metrics({"td_error": 0.5, "return": 2.0, "step": 1500})
        assert {name: column[-1] for name, column in run.metrics().items()} == {
            "step": 1500, "return": 2.0, "td_error": 0.5,
        }  # fmt: skip


def test_a_line_still_being_written_is_not_read(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 500)
    whole = RunFolder.read(run.path).metrics()
    with (run.path / "metrics.csv").open("a") as file:
        file.write("1000,142.")
    assert {k: v.tolist() for k, v in RunFolder.read(run.path).metrics().items()} == {
        k: v.tolist() for k, v in whole.items()
    }
    with (run.path / "metrics.csv").open("a") as file:
        file.write("8\n")
    with pytest.raises(HeadraceError, match=r"metrics\.csv, line 3: 2 values for 3 columns"):
        RunFolder.read(run.path).metrics()


def test_rows_reach_the_file_without_being_asked_for_once_they_are_many(tmp_path):
    with opened(tmp_path) as run:
        run.append_episodes((step, 1.0, 10) for step in range(10_000))
        assert (run.path / "episodes.csv").stat().st_size > 50_000
        run.flush()
        assert len(RunFolder.read(run.path).episodes()["step"]) == 10_000


def test_what_a_broken_write_left_behind_the_rows_is_written_over(tmp_path, monkeypatch):
    def half(opened_file, data):
        write(opened_file, data[:6])
        monkeypatch.setattr(os, "ftruncate", failing)  # nor can it be taken back
        failing()

    def failing(*_):
        raise OSError(errno.EIO, "the disk is broken")

    with opened(tmp_path) as run:
        run.append_episodes([(12, 3.0, 12)])
        run.flush()
        run.append_episodes([(20, 2.0, 8)])
        write = os.write
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(HeadraceError, match="the disk is broken"):
            run.flush()
        monkeypatch.undo()
        assert (run.path / "episodes.csv").read_text().endswith("12,3.0,12\n20,2.0")
    assert (run.path / "episodes.csv").read_text() == "step,return,length\n12,3.0,12\n20,2.0,8\n"


def test_a_longer_file_that_a_killed_process_left_does_not_shine_through(tmp_path):
    path = tmp_path / "manifest.json"
    temporary_name(path).write_bytes(b"longer than what is written now")
    write_atomically(path, b"short")
    assert path.read_bytes() == b"short"


def test_a_step_has_one_break_however_often_it_was_taken_up(tmp_path):
    with opened(tmp_path) as run:
        for step, why in ((1000, "a"), (2000, "b"), (2000, "c")):
            run.record_break(step, why)
        assert run.manifest["breaks"] == [{"step": 1000, "why": "a"}, {"step": 2000, "why": "c"}]
        assert (run.status, run.manifest["end"]) == ("running", None)


def test_a_run_that_cannot_be_taken_over_is_let_go(tmp_path, monkeypatch):
    with opened(tmp_path) as run:
        path = run.path
    monkeypatch.setattr(store, "Table", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError) as kept:  # and what it refers to with it
        opened(tmp_path)
    assert kept.traceback
    assert not is_held(path)


def test_the_score_is_the_mean_of_the_last_fifty_points():
    assert score({"return": np.arange(100.0)}) == Score(74.5, 50)
    assert score({"return": np.array([np.nan, np.nan, 1.0, 2.0])}) == Score(1.5, 2)
    assert score({"return": np.array([np.nan])}) is None
    assert score({}) is None


def test_a_runs_digest_covers_rows_not_yet_written(tmp_path):
    with opened(tmp_path) as run:
        before = run.digest({})
        run.append_episodes([(1, 2.0, 3)])
        assert run.digest({}) == checkpoints.digest({}, b"step,return,length\n1,2.0,3\n") != before
