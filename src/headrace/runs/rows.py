"""Some rows of a table without parsing the rest: its last ones, or evenly spaced ones."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from headrace.errors import HeadraceError
from headrace.runs.tables import Columns, content

TAIL = 1 << 14  # bytes first looked at for the last rows
NEWLINE = 10


def last_rows(path: Path, count: int) -> Columns:
    """The last rows of a table, all columns; nothing where the table is absent or has no row yet."""
    with path.open("rb") if path.is_file() else io.BytesIO(content(path)) as file:
        header = file.readline()
        first, end, size = file.tell(), file.seek(0, 2), TAIL
        while True:
            start = max(first, end - size)
            file.seek(start)
            data = file.read(end - start)
            if start == first or data.count(b"\n") > count:
                break
            size *= 4
    lines = data.split(b"\n")[:-1]  # without a last line that is still being written
    lines = lines if start == first else lines[1:]
    names, kept = _names(header), lines[-count:]
    found = _columns(names, kept)
    if kept and len(found.get("step", ())) < len(kept):
        raise HeadraceError(f"{path} is damaged: its last rows are not rows of numbers")
    return found


def newest_step(path: Path, columns: Columns) -> int:
    """The step of the last of a table's rows; 0 where it has none."""
    step = float(columns["step"][-1]) if len(columns.get("step", ())) else 0.0
    if not 0 <= step < 2**53:
        raise HeadraceError(f"{path} is damaged: its last step is {step:g}")
    return int(step)


def sampled_rows(path: Path, count: int) -> Columns:
    """At most `count` evenly spaced rows of a table, its last row among them.

    A row that is not one of numbers is left out. Tables of equal length are sampled at equal rows, so that runs of one
    budget can be averaged point by point.
    """
    data = content(path)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE)
    if len(ends) < 2:
        return {}
    rows = len(ends) - 1
    lines = [data[ends[i] + 1 : ends[i + 1]] for i in picked(rows, count)]
    return _columns(_names(data[: ends[0]]), lines)


def picked(rows: int, count: int) -> np.ndarray:
    """Which of the rows of a table are at most `count` evenly spaced ones."""
    return np.arange(rows - 1, -1, -max(1, -(-rows // count)))[::-1]


def _names(header: bytes) -> list[str]:
    return header.decode(errors="replace").strip().split(",")


def _cells(lines: list[bytes], width: int) -> Iterator[list[float]]:
    """Every line that is a row of so many numbers."""
    for line in lines:
        cells = line.split(b",")
        with suppress(ValueError):
            if len(cells) == width:
                yield [float(cell) for cell in cells]


def _columns(names: list[str], lines: list[bytes]) -> Columns:
    values = np.array(list(_cells(lines, len(names))), np.float64).reshape(-1, len(names))
    return {name: values[:, i] for i, name in enumerate(names)} if len(values) else {}
