"""What every kind of export has in common: the command, the folder, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.export import KINDS, export
from headrace.training.single import Trained, train
from tests.export.support import QUICK
from tests.small_runs import GAME, newest_checkpoint

PAGE = Path(__file__).parents[2] / "docs/export.md"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A finished run. Do not change it."""
    settings = ("network=Conv((4,),((3,3),),((2,2),),16)",)
    return train("strq", GAME, steps=400, out=tmp_path_factory.mktemp("small"), checkpoint_every=200, settings=settings)


@pytest.fixture
def copied(small: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small.path, tmp_path / "runs" / small.path.name))


def refused(capsys: pytest.CaptureFixture[str], run: Path, out: Path, to: str = "learner") -> str:
    """What is said of an export that cannot be; nothing is written."""
    before = sorted(out.parent.iterdir())
    assert main(["export", str(run), "--to", to, "--out", str(out)]) == 1
    said, error = capsys.readouterr()
    assert said == ""
    assert error.count("\n") == 1
    assert sorted(out.parent.iterdir()) == before
    return error.removeprefix("headrace: ").rstrip("\n")


def test_the_command_says_what_it_wrote(capsys: pytest.CaptureFixture[str], small: Trained, tmp_path: Path) -> None:
    out = tmp_path / "new/device"
    assert main(["export", str(small.path), "--to", "learner", "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["path"], found["to"], found["step"]) == (str(out), "learner", 400)
    sizes = {str(path.relative_to(out)): path.stat().st_size for path in out.rglob("*") if path.is_file()}
    assert found["files"] == sizes
    assert [path.name for path in out.parent.iterdir()] == ["device"]


@pytest.mark.parametrize(
    ("kind", "names"), [("onnx", ["README.md", "policy.onnx"]), ("c", ["README.md", "policy.c", "policy.h"])]
)
def test_a_policy_is_a_few_files(small: Trained, tmp_path: Path, kind: str, names: list[str]) -> None:
    done = export(small.path, kind, tmp_path / "out")
    assert sorted(path.name for path in done.path.iterdir()) == sorted(done.files) == names
    page = (done.path / "README.md").read_text()
    assert page.startswith("# What the agent does: strq")
    assert small.path.name in page
    assert "0 noop, 1 left, 2 right" in page


def test_a_folder_that_exists_is_left_alone(capsys: pytest.CaptureFixture[str], small: Trained, tmp_path: Path) -> None:
    said = refused(capsys, small.path, tmp_path)
    assert said == f"{tmp_path} exists already: name another folder with --out"


def test_a_kind_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str], small: Trained, tmp_path: Path) -> None:
    said = refused(capsys, small.path, tmp_path / "out", to="lerner")
    assert said == f"unknown kind of export 'lerner'; did you mean 'learner'? Known: {', '.join(sorted(KINDS))}."


def test_what_is_no_run_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert refused(capsys, tmp_path / "nowhere", tmp_path / "out").startswith(f"{tmp_path / 'nowhere'} ")


def test_a_run_without_a_checkpoint_is_told(capsys: pytest.CaptureFixture[str], copied: Path, tmp_path: Path) -> None:
    shutil.rmtree(copied / "checkpoints")
    assert refused(capsys, copied, tmp_path / "out") == f"{copied} has no checkpoint that can be used: none were kept"


def test_a_damaged_checkpoint_is_passed_over(capsys: pytest.CaptureFixture[str], copied: Path, tmp_path: Path) -> None:
    os.truncate(newest_checkpoint(copied), 1000)
    assert main(["export", str(copied), "--to", "learner", "--out", str(tmp_path / "out"), "--json"]) == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["step"] == 200
    assert error.startswith("headrace: checkpoint step-000000000400.safetensors passed over: ")


def test_checkpoints_of_another_run_are_refused(
    capsys: pytest.CaptureFixture[str], copied: Path, tmp_path: Path
) -> None:
    manifest = copied / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
    assert "it belongs to another run" in refused(capsys, copied, tmp_path / "out")


def test_a_place_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], small: Trained, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert main(["export", str(small.path), "--to", "learner", "--out", str(tmp_path / "file/out")]) == 1
    where = tmp_path / "file"
    said = f"headrace: cannot write below {where}: it is a file, not a folder; name a folder with --out\n"
    assert capsys.readouterr().err == said


def test_what_was_half_written_is_removed(small: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(KeyboardInterrupt):
        export(small.path, "learner", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    """Every command and program of docs/export.md, in order; `make` without its optimisation, which takes a while."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(headrace_command(tmp_path)), os.environ["PATH"]]),
        "MAKEFLAGS": " ".join(word.replace(" ", "\\ ") for word in QUICK),
    }
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) >= 2
    for language, text in blocks:
        command = ["bash", "-euc", text] if language == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "device/saved").stat().st_size == (tmp_path / "device/state.bin").stat().st_size


def headrace_command(folder: Path) -> Path:
    """A folder with a `headrace` that is this one."""
    place = folder / "bin"
    place.mkdir()
    (place / "headrace").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace "$@"\n')
    (place / "headrace").chmod(0o755)
    return place
