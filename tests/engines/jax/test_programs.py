"""Where compiled programs are kept between processes: a damaged, full or forbidden place costs time alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from headrace.engines.jax.programs import _tell_once
from headrace.runs.folder import RunFolder
from tests.small_runs import only_run, small_words


def test_what_jax_says_of_every_program_is_said_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: shown.append(str(message)))
    _tell_once(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for program in ("jit_one", "jit_other"):
            warnings.warn(
                f"Error writing persistent compilation cache entry for '{program}': OSError: no room", stacklevel=1
            )
        warnings.warn("something else", stacklevel=1)
    assert capsys.readouterr().err == (
        f"headrace: compiled programs cannot be kept in {tmp_path} (no room), which only costs time; "
        "make room there, or remove the folder if it is damaged\n"
    )
    assert shown == ["something else"]


def damage(entry: Path) -> None:
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 255
    entry.write_bytes(data)


def cut(entry: Path) -> None:
    os.truncate(entry, entry.stat().st_size // 2)


def put_a_folder(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


def trained(out: Path, engine: str, cache: Path) -> tuple[str, list[str]]:
    """The digest of a run with this folder for caches, and the lines of notices."""
    words = small_words(out, "--quiet", steps=1000, engine=engine)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "MPLCONFIGDIR": str(out / "matplotlib")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-m", "headrace", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(out / "matplotlib", ignore_errors=True)
    return RunFolder.read(only_run(out)).manifest["digest"], done.stderr.splitlines()


def test_the_learner_keeps_nothing_that_a_result_could_depend_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    digest, said = trained(tmp_path / "a", "learner", tmp_path / "cache")
    assert trained(tmp_path / "b", "learner", tmp_path / "file") == (digest, said) == (digest, [])
    assert not list((tmp_path / "cache").glob("headrace/**/*-cache"))


@pytest.mark.long
def test_a_damaged_or_forbidden_place_changes_no_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = tmp_path / "cache"
    digest, said = trained(tmp_path / "whole", "reference", cache)
    assert said == []
    assert trained(tmp_path / "forbidden", "reference", tmp_path / "file") == (digest, [])
    for harm in (damage, cut, put_a_folder):
        entries = list(cache.glob("headrace/xla/*-cache"))
        assert entries
        for entry in entries:
            harm(entry)
        again, said = trained(tmp_path / harm.__name__, "reference", cache)
        assert again == digest
        assert len(said) == 1
        assert "which only costs time" in said[0]
