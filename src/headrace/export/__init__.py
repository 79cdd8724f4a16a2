"""A run's agent taken out of headrace: a learner that goes on in C, or the policy alone, in ONNX or in C."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from headrace.errors import HeadraceError, unknown
from headrace.export import c_policy, learner, onnx_policy
from headrace.export.policy import Saved, read
from headrace.runs.files import write_folder

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
    write_folder(path, {name: partial(bytes, data) for name, data in files.items()})
    return Exported(path, saved, {name: len(data) for name, data in files.items()})
