"""A finished run vouches for its tables, and whoever reads it says when they are others."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from headrace.analysis.records import find_runs
from headrace.errors import HeadraceError
from headrace.runs import manifest
from headrace.runs.folder import RunFolder, damage
from headrace.sweep.status import standing
from headrace.training.run import make_run
from headrace.training.single import train
from tests.analysis.synthetic import write_run
from tests.toy_run import opened, train as train_toy

RUN = make_run("qrc", "minatar/breakout", steps=1e6, engine="reference")


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A finished run whose manifest says what its tables are."""
    path = write_run(tmp_path, RUN, 3.0)
    (path / "episodes.csv").write_text("step,return,length\n500,3.0,500\n")
    (path / "speed.csv").write_text("step,steps_per_s,seconds\n1000,2.0,3.0\n")
    vouch(path)
    return path


def vouch(path: Path) -> None:
    tables = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name in ("episodes.csv", "metrics.csv", "speed.csv")
        for data in [(path / name).read_bytes()]
    }
    facts = {**manifest.load(path), "tables": tables}
    (path / "manifest.json").write_bytes(manifest.encode(facts))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 9 // 10)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def test_a_sound_run_is_read(finished: Path) -> None:
    assert damage(finished, manifest.load(finished)) == ""
    assert find_runs(finished).problems == []
    assert standing(RUN, finished.parent).state == "done"


@pytest.mark.parametrize("name", ["metrics.csv", "episodes.csv"])
@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
def test_every_reader_tells_of_a_changed_table(finished: Path, name: str, harm, capsys) -> None:
    harm(finished / name)
    (problem,) = find_runs(finished).problems
    assert problem.why.startswith(f"it was changed after it finished ({name} ")
    assert "bring back its folder from a copy, or remove it" in problem.why
    assert standing(RUN, finished.parent).state == "failed"
    with pytest.raises(HeadraceError, match=f"is damaged: it was changed after it finished \\({name}"):
        train("qrc", "minatar/breakout", steps=1e6, engine="reference", out=finished.parent)


def test_what_the_clock_said_and_old_manifests_are_no_damage(finished: Path) -> None:
    flip(finished / "speed.csv")
    assert find_runs(finished).problems == []
    cut(finished / "metrics.csv")
    facts = {name: value for name, value in manifest.load(finished).items() if name != "tables"}
    (finished / "manifest.json").write_bytes(manifest.encode(facts))
    assert find_runs(finished).problems == []


def test_a_pipe_in_place_of_a_table_is_told_and_not_waited_for(finished: Path) -> None:
    for name in ("metrics.csv", "manifest.json"):
        (finished / name).unlink()
        os.mkfifo(finished / name)
        (problem,) = find_runs(finished).problems
        assert name in problem.why
    with pytest.raises(HeadraceError, match=r"manifest\.json"):
        RunFolder(finished)


def test_a_table_without_its_columns_is_damaged(finished: Path) -> None:
    (finished / "episodes.csv").write_text("step,rEturn,length\n1,2,3\n")
    with pytest.raises(HeadraceError, match=r"episodes\.csv is damaged: its first line lacks return"):
        RunFolder.read(finished).episodes()


@pytest.mark.parametrize("at", [0, 3, 40])
def test_damage_to_what_the_clock_said_stops_no_run(tmp_path: Path, at: int) -> None:
    with opened(tmp_path) as run:
        train_toy(run, 0, 2500)
    data = bytearray((run.path / "speed.csv").read_bytes())
    data[at] ^= 1
    (run.path / "speed.csv").write_bytes(data)
    with opened(tmp_path) as run:
        assert run.resume().step == 2000
        assert any("speed.csv was changed" in notice for notice in run.notices)
        train_toy(run, 2000, 4000)
    assert (run.path / "speed.csv.damaged").read_bytes() == bytes(data)
    assert RunFolder(run.path).speed()["step"].tolist() == [2500, 3000, 3500, 4000]
    assert json.loads((run.path / "manifest.json").read_text())["status"] == "running"
