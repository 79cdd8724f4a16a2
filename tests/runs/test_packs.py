"""Packs: many runs in one file, read as their folders would be."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.runs import packs

TABLE = {"columns": {"step": "1,2,3", "return": "0.5,,1.5"}}
FILES = {"manifest.json": "{}\n", "metrics.csv": TABLE, "snapshots/step-1.safetensors": {"base64": "AP8="}}


def pack(folder: Path, *lines: object, head: object = {"format": 1}) -> Path:
    path = folder / packs.FILE
    path.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in (head, *lines)).encode()))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One of two packed runs."""
    (tmp_path / packs.FILE).write_bytes(packs.encode({"b": FILES, "a": {}}))
    return tmp_path / "b"


def test_every_kind_of_file_comes_back(run: Path, tmp_path: Path) -> None:
    assert packs.runs(tmp_path / packs.FILE) == [tmp_path / "a", run]
    assert packs.listed(run) == sorted(FILES)
    assert packs.read(run, "manifest.json") == b"{}\n"
    assert packs.read(run, "metrics.csv") == b"step,return\n1,0.5\n2,nan\n3,1.5\n"
    assert packs.read(run, "snapshots/step-1.safetensors") == b"\x00\xff"
    packs.unpack(run, tmp_path / "out")
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == packs.read(run, name)


def test_equal_runs_are_equal_bytes(run: Path) -> None:
    turned = {"a": {}, "b": dict(reversed(FILES.items()))}
    assert packs.encode(turned) == (run.parent / packs.FILE).read_bytes()


def test_what_a_packed_run_lacks_is_not_found(run: Path) -> None:
    with pytest.raises(FileNotFoundError):
        packs.read(run, "episodes.csv")
    assert packs.holder(run.parent / "c") is None
    with pytest.raises(HeadraceError, match="c is in no pack"):
        packs.unpack(run.parent / "c", run.parent / "out")


def test_a_folder_of_the_same_name_is_read_instead(run: Path) -> None:
    run.mkdir()
    (run / "manifest.json").write_text("its own")
    assert packs.holder(run) is None
    assert packs.runs(run.parent / packs.FILE) == [run.parent / "a"]
    assert packs.read(run, "manifest.json") == b"its own"
    with pytest.raises(FileNotFoundError):
        packs.read(run, "metrics.csv")


def test_a_pack_that_has_changed_is_read_again(run: Path) -> None:
    assert packs.holder(run)
    (run.parent / packs.FILE).write_bytes(packs.encode({"a": {}}))
    assert packs.holder(run) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "/a", "../a", "a/"])
def test_a_run_is_not_named_out_of_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"damaged: .* is no name of a run"):
        packs.load(pack(tmp_path, {"run": name, "files": {}}))


@pytest.mark.parametrize("name", ["", "..", "/", "/etc/passwd", "../a", "a/../b", "a//b", "a/b/c"])
def test_a_file_is_not_named_out_of_its_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"damaged: .* is no name of a run"):
        packs.load(pack(tmp_path, {"run": "a", "files": {name: ""}}))


@pytest.mark.parametrize(
    "data", [b"", b"{}", lzma.compress(b""), lzma.compress(b"{\n"), packs.encode({"a": FILES})[:-9]]
)
def test_a_damaged_file_is_said(data: bytes, tmp_path: Path) -> None:
    (tmp_path / packs.FILE).write_bytes(data)
    with pytest.raises(HeadraceError, match=r"records\.jsonl\.xz is damaged: "):
        packs.load(tmp_path / packs.FILE)


def test_a_pipe_in_place_of_a_pack_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / packs.FILE)
    with pytest.raises(HeadraceError, match=r"records\.jsonl\.xz is not a file .*: remove it"):
        packs.load(tmp_path / packs.FILE)


@pytest.mark.parametrize("line", [[], {}, {"run": "a"}, {"run": 1, "files": {}}, {"run": "a", "files": "text"}])
def test_a_line_that_is_no_run_is_damage(line: object, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"records\.jsonl\.xz is damaged: "):
        packs.load(pack(tmp_path, line))


@pytest.mark.parametrize("content", [None, 1, {}, {"base64": "%"}, {"columns": {"a": "1,2", "b": "1"}}])
def test_a_content_that_is_none_is_damage_of_its_run_alone(content: object, tmp_path: Path) -> None:
    lines = [{"run": "a", "files": {"metrics.csv": content}}, {"run": "b", "files": FILES}]
    folder = pack(tmp_path, *lines).parent
    with pytest.raises(HeadraceError, match=r"records\.jsonl\.xz is damaged: metrics\.csv of a: "):
        packs.read(folder / "a", "metrics.csv")
    assert packs.read(folder / "b", "manifest.json") == b"{}\n"


def test_another_version_and_no_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="has format 2, this version of headrace reads 1"):
        packs.load(pack(tmp_path, head={"format": 2}))
    with pytest.raises(HeadraceError, match=r"cannot read .*nowhere"):
        packs.load(tmp_path / "nowhere")
