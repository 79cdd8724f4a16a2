"""Snapshots: what a run's encoder was at a few steps, kept for good in small files beside the checkpoints.

    <run>/snapshots/step-000001250000.safetensors     encoder and observation scale, and the norm of every module

A checkpoint is all that a run needs to continue, and only the newest are kept; a snapshot is what an analysis of
representations over training needs, and none is ever removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.errors import CheckpointDamaged
from headrace.runs import packs, safetensors_io
from headrace.runs.checkpoints import NAME, path_of

FOLDER = "snapshots"
PARAMS = "stream/agent/params/"
KEPT = (f"{PARAMS}encoder/", "stream/obs_scale/")
PARTS = 4  # a snapshot at the beginning, and one after each of so many equal parts of a run
SPACING = 1000  # steps: every snapshot but the last falls on a multiple, where a block of steps ends anyway


class Snapshot(NamedTuple):
    step: int
    arrays: dict[str, np.ndarray]
    norms: dict[str, float]  # Euclidean, by module


@cache
def steps_of(total: int) -> frozenset[int]:
    """The steps of a run at which a snapshot is kept, its first and its last included."""
    between = (SPACING * round(total * i / (PARTS * SPACING)) for i in range(1, PARTS))
    return frozenset({0, total, *(min(step, total) for step in between)})


def due(step: int, total: int) -> bool:
    return step in steps_of(total)


def module_norms(arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The Euclidean norm of all of each module's parameters, those of QRC's second network included."""
    squares: dict[str, float] = {}
    for name, array in arrays.items():
        if name.startswith(PARAMS):
            module = name.removeprefix(PARAMS).partition("/")[0]
            flat = array.reshape(-1)
            square = float(np.einsum("i,i->", flat, flat, dtype=np.float64))  # makes no array of doubles
            squares[module] = squares.get(module, 0.0) + square
    return {module: total**0.5 for module, total in sorted(squares.items())}


def encode(step: int, arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of the snapshot of a saved stream."""
    kept = {name: np.asarray(array) for name, array in arrays.items() if name.startswith(KEPT)}
    return safetensors_io.dumps(kept, {"step": str(step), "norms": json.dumps(module_norms(arrays))})


def decode(data: bytes) -> Snapshot:
    """The snapshot in a file's bytes; CheckpointDamaged where it is none."""
    arrays, texts = safetensors_io.loads(data)
    try:
        norms = json.loads(texts["norms"])
        return Snapshot(int(texts["step"]), arrays, {str(name): float(norm) for name, norm in norms.items()})
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(f"it is no snapshot: {error!r}") from error


def listed(run: Path) -> list[Path]:
    """The snapshots of a run, the earliest first; `packs.read` reads those of packed runs too."""
    found = [(int(match[1]), path) for path in packs.inside(run, FOLDER) if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def path_in(run: Path, step: int) -> Path:
    return path_of(run / FOLDER, step)
