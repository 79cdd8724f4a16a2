"""A run's CSV files: appended by one process, read by any, cut back to a checkpoint when a run resumes."""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.runs import packs
from headrace.runs.files import descriptor, storage_errors, write_all

BUFFER = 1 << 16  # characters held back before they are written

Columns = dict[str, np.ndarray]


class Table:
    """An append-only CSV file whose columns are those of its first row.

    `length` and `checksum` describe the bytes in the file that this object answers for; rows still held back are not
    among them, nor is anything an interrupted write may have left behind those bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pending: list[str] = []
        self._pending_size = 0
        self.cut(path.stat().st_size if path.exists() else 0)

    def cut(self, length: int) -> None:
        """Forgets the rows held back and every byte after `length`."""
        self._pending, self._pending_size = [], 0
        with storage_errors(self.path), descriptor(self.path, os.O_RDWR | os.O_CREAT) as opened:
            os.ftruncate(opened, length)
        content = self.path.read_bytes()
        self.length, self._synced = len(content), -1
        self._hash = hashlib.sha256(content)
        self._columns = content.split(b"\n", 1)[0].decode(errors="replace").split(",") if content else []

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row; an integer stays an integer and a float keeps every bit."""
        if not self._columns:
            self._columns = list(row)
            self._hold(",".join(self._columns))
        elif row.keys() != set(self._columns):
            raise ValueError(f"{self.path.name} has columns {self._columns}, this row has {list(row)}")
        self._hold(",".join(_cell(row[column]) for column in self._columns))

    def _hold(self, line: str) -> None:
        self._pending.append(line + "\n")
        self._pending_size += len(line) + 1
        if self._pending_size >= BUFFER:
            self.flush()

    def flush(self) -> None:
        """Writes the rows held back. If there is no room the file stays as it was and the rows stay held back."""
        data = "".join(self._pending).encode()
        if not data:
            return
        with storage_errors(self.path, len(data)), descriptor(self.path, os.O_WRONLY | os.O_CREAT) as opened:
            try:
                os.ftruncate(opened, self.length)
                os.lseek(opened, self.length, os.SEEK_SET)
                write_all(opened, data)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(opened, self.length)
                raise
        self._hash.update(data)
        self.length += len(data)
        self._pending, self._pending_size = [], 0

    def sync(self) -> None:
        """Writes the rows held back and makes the file survive a power cut."""
        self.flush()
        if self._synced != self.length:
            with storage_errors(self.path), descriptor(self.path, os.O_WRONLY | os.O_CREAT) as opened:
                os.fsync(opened)
            self._synced = self.length


def _cell(value: Any) -> str:
    try:
        return str(operator.index(value))
    except TypeError:
        return repr(float(value))


def starts_with(path: Path, length: int, checksum: str) -> bool:
    """Whether the file's first `length` bytes are the ones that had this checksum."""
    if not path.exists():
        return length == 0
    with path.open("rb") as file:
        content = file.read(length)
    return len(content) == length and hashlib.sha256(content).hexdigest() == checksum


def whole_lines(path: Path, length: int) -> int:
    """How many of the first `length` bytes are whole lines."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return file.read(length).rfind(b"\n") + 1


def content(path: Path) -> bytes:
    """What a table of a run holds; nothing where there is no such table."""
    try:
        return packs.read(path.parent, path.name)
    except FileNotFoundError:
        return b""


def read_table(path: Path, empty: Sequence[tuple[str, type]] = ()) -> Columns:
    """Each column as an array of int64 or float64; a last line still being written is left out.

    `empty` gives the columns and types of a table that has no rows yet.
    """
    lines = content(path).decode(errors="replace").split("\n")[:-1]
    if len(lines) < 2:
        return {name: np.empty(0, kind) for name, kind in empty}
    names = lines[0].split(",")
    rows = [line.split(",") for line in lines[1:]]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise HeadraceError(f"{path}, line {number}: {len(row)} values for {len(names)} columns")
    return {name: _column(path, name, cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)}


def _column(path: Path, name: str, cells: Iterable[str]) -> np.ndarray:
    values = list(cells)
    try:
        return np.array([int(value) for value in values], np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.array([float(value) for value in values], np.float64)
    except ValueError as error:
        raise HeadraceError(f"{path}, column {name!r}: {error}") from error
