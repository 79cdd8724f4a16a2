"""Compiled code is kept and found again: a second start compiles nothing. Of the first a person is told."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from headrace.agents import BySuite, agent_named
from headrace.engines.fast import compiling, warming
from headrace.engines.fast.engine import FastEngine
from tests.engines.fast.support import SUITES, on, spec_of

COUNTED = """
from numba.core import event

with event.install_recorder("numba:compile") as recorder:
    {work}
print(sum(happened.is_start for _, happened in recorder.buffer), "compiled")
"""
ONE_FUNCTION = "from headrace.engines.fast.machine import hashed; hashed(1, 2, 3, 4)"
EVERYTHING = """from tests.engines.fast import test_compiling
    test_compiling.everything(__import__("pathlib").Path({out!r}))"""


def everything(out: Path) -> None:
    """Trains with two threads, evaluates, and saves a layer that is kept as factors: all that this engine can do."""
    from headrace.training.evaluation import evaluate
    from headrace.training.single import train

    trained = train("qrc+spr+orth", "minatar/breakout", steps=30, out=out, engine="fast", threads=2)
    evaluate(trained.path, episodes=1, max_steps=20)
    spec = spec_of(SUITES["atari"])
    engine = FastEngine(on(agent_named("qrc"), BySuite()), spec, seed=0, steps=100)
    assert engine._plan.td.factored, "no layer is kept as factors on this shape"
    engine.begin(np.zeros(spec.frame_shape, np.float32))
    engine.restore(engine.save())


def compiled_by(work: str, **variables: str) -> int:
    """How many functions a process of its own compiled while it did this, by the compiler's own account."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED.format(work=work)],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, word = done.stdout.split()[-2:]
    assert word == "compiled"
    return int(count)


def files_in(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_function_is_kept_and_found_again(tmp_path: Path) -> None:
    first, second = (compiled_by(ONE_FUNCTION, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first > 0
    assert second == 0


def test_other_sources_are_kept_in_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiling._fingerprint()
    assert compiling._fingerprint() == before
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"as it was changed")
    assert compiling._fingerprint() != before


def test_a_second_start_of_the_engine_compiles_nothing(tmp_path: Path) -> None:
    warming.compile_beforehand()  # the first start, if there was none on this machine
    folder = compiling.cache_folder()
    assert folder is not None
    before = files_in(folder)
    assert compiled_by(EVERYTHING.format(out=str(tmp_path))) == 0
    assert files_in(folder) == before


@pytest.mark.long
def test_from_an_empty_folder_the_first_start_tells_and_compiles_and_the_second_does_neither(tmp_path: Path) -> None:
    os.makedirs(kept := tmp_path / "kept")
    start = "from headrace.engines.fast.warming import compile_beforehand; compile_beforehand()"
    assert at_a_terminal(start, NUMBA_CACHE_DIR=str(kept)) == f"headrace: {warming.ONCE}\r\n"
    before = files_in(kept)
    assert any(path.endswith(".nbi") for path in before)
    assert at_a_terminal(start, NUMBA_CACHE_DIR=str(kept)) == ""
    assert compiled_by(EVERYTHING.format(out=str(tmp_path)), NUMBA_CACHE_DIR=str(kept)) == 0
    assert files_in(kept) == before


def at_a_terminal(code: str, **variables: str) -> str:
    """What a process writes to its standard error, which is a terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **variables}, stderr=its)
    os.close(its)
    said = b""
    with suppress(OSError):  # what reading says once the other side is closed
        while more := os.read(ours, 4096):
            said += more
    os.close(ours)
    assert process.wait() == 0
    return said.decode()


# What is said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Processes that were to compile; none is started."""
    started: list[list[str]] = []

    def note(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(words)
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(warming.subprocess, "run", note)
    warming._tell.cache_clear()
    return started


@pytest.mark.parametrize(("stream", "told"), [(Terminal, f"headrace: {warming.ONCE}\n"), (io.StringIO, "")])
def test_who_is_told_that_something_is_compiled(stream, told, compilations, monkeypatch, tmp_path):
    monkeypatch.setattr(warming, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(sys, "stderr", heard := stream())
    for _ in range(2):  # the second time everything is there
        warming.compile_beforehand()
    assert (heard.getvalue(), len(compilations)) == (told, 1)


def test_where_nothing_can_be_kept_that_is_told_once_in_a_process(compilations, monkeypatch):
    monkeypatch.setattr(warming, "cache_folder", lambda: None)
    monkeypatch.setattr(sys, "stderr", heard := Terminal())
    for _ in range(2):
        warming.compile_beforehand()
    assert (heard.getvalue(), compilations) == (f"headrace: {warming.EACH_TIME}\n", [])


def test_where_nothing_can_be_written_code_is_compiled_anew(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    compiling.cache_folder.cache_clear()
    try:
        assert compiling.cache_folder() is None
        assert compiling.entry(lambda x: x + 1)(1) == 2
    finally:
        compiling.cache_folder.cache_clear()
