"""A run's agent taken out of headrace: a learner that goes on in C, or the policy alone, in ONNX or in C."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.errors import HeadraceError, unknown
from headrace.export import c_policy, learner, onnx_policy
from headrace.export.policy import Saved, read
from headrace.runs.files import storage_errors, temporary_name

KINDS = {"learner": learner.files, "onnx": onnx_policy.files, "c": c_policy.files}


class Exported(NamedTuple):
    """What `export` wrote."""

    path: Path
    saved: Saved
    files: dict[str, int]  # bytes of each


def export(run: str | Path, to: str, out: str | Path) -> Exported:
    """Writes the agent of a run's newest checkpoint into a new folder, whole or not at all."""
    if to not in KINDS:
        raise unknown("kind of export", to, KINDS)
    path = Path(out)
    if path.exists() or path.is_symlink():
        raise HeadraceError(f"{path} exists already: name another folder with --out")
    saved = read(run)
    files = KINDS[to](saved)
    _write(path, files)
    return Exported(path, saved, {name: len(data) for name, data in files.items()})


def _write(path: Path, files: Mapping[str, bytes]) -> None:
    """Beside its place first, so that the folder is whole once it is there."""
    temporary = temporary_name(path)
    size = sum(map(len, files.values()))
    with storage_errors(path, size):
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # a killed process may have left it
            for name, data in files.items():
                file = temporary / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
