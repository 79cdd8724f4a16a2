"""Checkpoint files: arrays as safetensors, everything else as JSON beside them, and a checksum over both."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import CheckpointDamaged
from headrace.runs import packs, safetensors_io

FORMAT = 1
NAME = re.compile(r"step-(\d+)\.safetensors")


class Extent(NamedTuple):
    """How much of a table belongs to a checkpoint."""

    length: int  # bytes
    checksum: str
    rest: str = ""  # rows after those, of a table that could not be written any more


class Checkpoint(NamedTuple):
    """What a run continues from."""

    step: int
    arrays: dict[str, np.ndarray]
    state: dict[str, Any]


class Saved(NamedTuple):
    """A checkpoint, and how long each table was when it was taken."""

    checkpoint: Checkpoint
    tables: dict[str, Extent]


def digest(arrays: Mapping[str, np.ndarray], rest: bytes) -> str:
    """SHA-256 over the names, dtypes, shapes and bytes of the arrays in sorted order, then over `rest`."""
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        whole.update(json.dumps([name, little.dtype.str, list(little.shape)]).encode())
        whole.update(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)
    whole.update(rest)
    return whole.hexdigest()


def path_of(folder: Path, step: int) -> Path:
    if step < 0:
        raise ValueError(f"step must be >= 0, got {step}")
    return folder / f"step-{step:012d}.safetensors"


def newest_first(folder: Path) -> list[Path]:
    """The checkpoints in a folder of a run; temporary and damaged files are not among them."""
    files = packs.inside(folder.parent, folder.name)
    found = [(int(match[1]), path) for path in files if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def encode(run: str, saved: Saved) -> bytes:
    """The bytes of a checkpoint file of the run with this identity hash."""
    return b"".join(pieces(run, saved))


def pieces(run: str, saved: Saved) -> list[bytes | memoryview]:
    """What `encode` joins, the arrays among it without a copy."""
    step, arrays, state = saved.checkpoint
    text = json.dumps({"format": FORMAT, "run": run, "step": step, "tables": saved.tables, "state": state})
    return safetensors_io.pieces(arrays, {"headrace": text, "sha256": digest(arrays, text.encode())})


def load(path: Path, run: str) -> Saved:
    """The checkpoint in a file; CheckpointDamaged says why if it is not whole or not this run's."""
    saved = decode(packs.read(path.parent.parent, f"{path.parent.name}/{path.name}"), run)
    if path.name != path_of(path.parent, saved.checkpoint.step).name:
        raise CheckpointDamaged(f"it holds step {saved.checkpoint.step}, its name says otherwise")
    return saved


def decode(data: bytes, run: str) -> Saved:
    arrays, texts = safetensors_io.loads(data)
    if "headrace" not in texts or "sha256" not in texts:
        raise CheckpointDamaged("it was not written by headrace")
    if digest(arrays, texts["headrace"].encode(errors="surrogatepass")) != texts["sha256"]:
        raise CheckpointDamaged("its checksum is wrong")
    facts = json.loads(texts["headrace"])
    if facts["format"] != FORMAT:
        raise CheckpointDamaged(f"it has format {facts['format']}, this version reads {FORMAT}")
    if facts["run"] != run:
        raise CheckpointDamaged("it belongs to another run")
    tables = {name: Extent(*extent) for name, extent in facts["tables"].items()}
    usable = {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in arrays.items()}
    return Saved(Checkpoint(facts["step"], usable, facts["state"]), tables)


def set_aside(path: Path) -> Path:
    """Renames a file that cannot be used, so that it is neither taken for a good one nor lost."""
    aside = path.with_name(path.name + ".damaged")
    os.replace(path, aside)
    return aside


def final_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a digest of a run covers: parameters, traces and histories, normalisers."""
    wanted = ("stream/agent/", "stream/obs_scale/", "stream/reward_scale/")
    return {name: array for name, array in arrays.items() if name.startswith(wanted)}
