"""A writer whose tables somebody else changed stops, with everything saved; a forked child never writes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, TableChanged
from headrace.runs.folder import EPISODES, METRICS, SPEED, RunFolder, RunWriter
from headrace.runs.lock import is_held
from tests.toy_run import IDENTITY, arrays_at, assert_consistent, names, opened, state_at, train

ROOT = Path(__file__).parents[2]


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 9 // 10)


def lengthen(path: Path) -> None:
    with path.open("a") as file:
        file.write("9,9.0,9\n")


def alter(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"1", b"2"))


CHANGES = {
    remove: "is gone",
    empty: "has 0 bytes, [0-9]+ were written",
    cut: "has [0-9]+ bytes, [0-9]+ were written",
    lengthen: "has [0-9]+ bytes, [0-9]+ were written",
    alter: "holds other bytes than were written",
}


def trained_on(run: RunWriter) -> None:
    """Rows up to step 3000, and the checkpoint there."""
    train(run, 2000, 2500)
    run.append_episodes([(3000, 3000 / 7, 500)])
    run.append_metrics({"step": 3000, "return": 3000 / 7, "td_error": 1 / 3000})
    run.append_speed(3000, 1000.0, 1.0)
    run.save_checkpoint(3000, arrays_at(3000), state_at(3000))


@pytest.mark.parametrize("name", [EPISODES, METRICS])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_table_stops_the_writer_and_nothing_is_lost(tmp_path, change, name):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        path, whole = run.path / name, (run.path / name).read_bytes()
        change(path)
        left = path.read_bytes() if path.exists() else None
        assert not run.intact()
        said = rf"{name} {CHANGES[change]}\. The run stops, saved as of step 3,000: put back the {len(whole)} bytes"
        with pytest.raises(TableChanged, match=said):
            trained_on(run)
        with pytest.raises(TableChanged):
            run.finish({})
        assert (path.read_bytes() if path.exists() else None) == left
        with pytest.raises(TableChanged):
            run.close()
    path.write_bytes(whole)
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {3000})
        assert run.notices == []


@pytest.mark.parametrize("change", [remove, empty, cut])
def test_a_run_whose_rows_are_not_put_back_continues_from_where_they_are_whole(tmp_path, change):
    run = opened(tmp_path)
    train(run, 0, 2000)
    change(run.path / EPISODES)
    for end in (lambda: trained_on(run), run.close):
        with pytest.raises(TableChanged):
            end()
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {0, 1000})
        assert any("episodes.csv lost or changed rows" in notice for notice in run.notices)
        assert any(name.endswith(".damaged") for name in names(run))


def test_a_pipe_in_place_of_a_table_is_not_waited_for(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        remove(run.path / EPISODES)
        os.mkfifo(run.path / EPISODES)
        with pytest.raises(TableChanged, match=r"episodes\.csv is gone\. The run stops, saved as of step 3,000"):
            trained_on(run)
        with pytest.raises(TableChanged):
            run.close()
    with pytest.raises(HeadraceError, match=r"episodes\.csv: it is no ordinary file"):
        opened(tmp_path)


def test_what_the_clock_said_needs_not_be_put_back(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        remove(run.path / SPEED)
        with pytest.raises(TableChanged, match=r"speed\.csv is gone.* step 3,000: the same command continues"):
            trained_on(run)
        with pytest.raises(TableChanged):
            run.close()
    with opened(tmp_path) as run:
        found = run.resume()
        assert found is not None
        assert found.step == 3000
        assert run.episodes()["step"].tolist() == list(range(500, 3001, 500))


def test_a_table_that_was_only_touched_or_replaced_by_an_equal_one_is_the_same(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        os.utime(run.path / EPISODES, (0, 0))
        whole = (run.path / METRICS).read_bytes()
        remove(run.path / METRICS)
        (run.path / METRICS).write_bytes(whole)
        assert run.intact()
        trained_on(run)
        assert_consistent(run, run.resume(), {3000})


def test_a_finished_run_vouches_for_its_results(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 2000)
        run.append_episodes([(2500, 1.0, 500)])
        run.finish({"digest": "d"})
    tables = RunFolder.read(run.path).manifest["tables"]
    assert tables == {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name in (EPISODES, METRICS)
        for content in [(run.path / name).read_bytes()]
    }
    assert b"2500,1.0,500" in (run.path / EPISODES).read_bytes()


def test_a_writer_that_was_closed_writes_no_more(tmp_path):
    with opened(tmp_path) as run:
        train(run, 0, 1000)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    for write in (
        lambda: run.append_episodes([(1500, 1.0, 500)]),
        lambda: run.append_metrics({}),
        lambda: run.append_speed(1, 1.0, 1.0),
        lambda: run.save_checkpoint(1500, {}, {}),
        lambda: run.keep_snapshot(1500, {}),
        lambda: run.set_status("failed"),
        lambda: run.finish({}),
        lambda: run.go_back_to(0),
        run.resume,
        run.flush,
    ):
        with pytest.raises(HeadraceError, match="not open for writing here"):
            write()
    assert run.episodes()["step"].tolist() == [500, 1000]
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


FORK = r"""
import os, signal, sys
from pathlib import Path
from tests.toy_run import opened, train

run = opened(Path(sys.argv[1]))
train(run, 0, 1000)
run.append_episodes([(1500, 1.0, 500)])
before = (run.path / "episodes.csv").read_bytes()
child = os.fork()
if child == 0:
    try:
        run.save_checkpoint(1500, {}, {})
    except Exception as error:
        os.write(1, f"child {error}\n".encode())
    run.close()
    signal.pause()  # outlives its parent
assert (run.path / "episodes.csv").read_bytes() == before
os.write(1, f"a parent of {child}\n".encode())
sys.stdin.read()
"""


def test_a_forked_child_writes_nothing_and_keeps_nobody_from_the_run(tmp_path):
    command = [sys.executable, "-c", FORK, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as parent:
        assert parent.stdout is not None
        said = sorted(parent.stdout.readline() for _ in range(2))
        child = int(said[0].split()[-1])
        assert "not open for writing here: it was closed, or opened before a fork" in said[1]
        assert is_held(tmp_path / "run")
        parent.kill()
        parent.wait()
        try:
            assert not is_held(tmp_path / "run")
            os.kill(child, 0)  # still there
        finally:
            os.kill(child, 9)
    with opened(tmp_path) as run:
        assert_consistent(run, run.resume(), {1000})
    assert run.identity == IDENTITY
