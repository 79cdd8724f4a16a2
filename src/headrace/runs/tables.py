"""A run's CSV files: appended by one process, read by any, cut back to a checkpoint when a run resumes."""

from __future__ import annotations

import errno
import hashlib
import io
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import HeadraceError, TableChanged
from headrace.runs import packs
from headrace.runs.checkpoints import Extent
from headrace.runs.files import descriptor, open_file, read_all, read_file, storage_errors, write_all

BUFFER = 1 << 16  # characters held back before they are written

GONE = {errno.ENOENT, errno.EISDIR, errno.EINVAL}  # nothing, a folder, a pipe or a device in place of a file
Columns = dict[str, np.ndarray]
TAIL = 1 << 14  # bytes first looked at for the last rows
NEWLINE = 10


class Table:
    """An append-only CSV file whose columns are those of its first row.

    `length` and `checksum` describe the bytes in the file that this object answers for; rows still held back are not
    among them, nor is anything an interrupted write may have left behind those bytes. Nobody else may write the file:
    if anybody does, the next operation raises TableChanged and leaves the file and the rows held back as they are.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut(path.stat().st_size if path.exists() else 0)

    def cut(self, length: int) -> None:
        """Forgets the rows held back and every byte after `length`."""
        with storage_errors(self.path), descriptor(self.path, os.O_RDWR | os.O_CREAT) as opened:
            os.ftruncate(opened, length)
            content, self._left = read_all(opened), _stamp(os.fstat(opened))
        self._pending, self._pending_size = list[str](), 0
        self.length, self._synced = len(content), -1
        self._hash = hashlib.sha256(content)
        self._columns = _columns(content.decode(errors="replace"))

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    @property
    def extent(self) -> Extent:
        """The file as it should be, and the rows that are not in it yet."""
        return Extent(self.length, self.checksum, "".join(self._pending))

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row; an integer stays an integer and a float keeps every bit."""
        if not self._columns:
            self.hold(",".join(row) + "\n")
        elif row.keys() != set(self._columns):
            raise ValueError(f"{self.path.name} has columns {self._columns}, this row has {list(row)}")
        self.hold(",".join(_cell(row[column]) for column in self._columns) + "\n")
        if self._pending_size >= BUFFER and self.intact():
            self.flush()

    def hold(self, lines: str) -> None:
        """Adds whole lines, to be written later."""
        self._columns = self._columns or _columns(lines)
        self._pending.append(lines)
        self._pending_size += len(lines)

    def intact(self) -> bool:
        """Whether the file is still what this object left."""
        with suppress(OSError):
            if _stamp(os.stat(self.path)) == self._left:
                return True
        try:
            with storage_errors(self.path), self._opened():
                return True
        except TableChanged:
            return False

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, open for writing, if it is what this object left."""
        try:
            with descriptor(self.path, os.O_RDWR) as opened:
                if _stamp(os.fstat(opened)) != self._left:
                    self._require_same(read_all(opened))
                    self._left = _stamp(os.fstat(opened))
                yield opened
        except OSError as error:
            if error.errno in GONE:
                raise TableChanged(f"{self.path} is gone") from error
            raise

    def _require_same(self, content: bytes) -> None:
        """Somebody may have touched the file, or put an equal one in its place."""
        if len(content) != self.length:
            raise TableChanged(f"{self.path} has {len(content):,} bytes, {self.length:,} were written")
        if hashlib.sha256(content).hexdigest() != self.checksum:
            raise TableChanged(f"{self.path} holds other bytes than were written")

    def flush(self) -> None:
        """Writes the rows held back. If there is no room the file stays as it was and the rows stay held back."""
        data = "".join(self._pending).encode()
        if not data:
            return
        with storage_errors(self.path, len(data)), self._opened() as opened:
            try:
                os.ftruncate(opened, self.length)
                os.lseek(opened, self.length, os.SEEK_SET)
                write_all(opened, data)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(opened, self.length)
                raise
            finally:
                self._left = _stamp(os.fstat(opened))
        self._hash.update(data)
        self.length += len(data)
        self._pending, self._pending_size = [], 0

    def sync(self) -> None:
        """Writes the rows held back and makes the file survive a power cut."""
        self.flush()
        with storage_errors(self.path), self._opened() as opened:
            if self._synced != self.length:
                os.fsync(opened)
        self._synced = self.length


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """What changes when somebody else writes the file, or puts another one in its place."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _columns(text: str) -> list[str]:
    return text.split("\n", 1)[0].split(",") if text else []


def _cell(value: Any) -> str:
    try:
        return str(operator.index(value))
    except TypeError:
        return repr(float(value))


@lru_cache(maxsize=1 << 14)
def _sha256(path: Path, changed: int, size: int, inode: int) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()


def damage(path: Path, length: int, checksum: str) -> str:
    """In words, how a table differs from what it was; empty where it does not.

    A checksum is remembered until the file changes: a sweep asks for those of all its runs again and again.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        return f"{path.name} is missing"
    if facts.st_size != length:
        return f"{path.name} has {facts.st_size:,} bytes instead of {length:,}"
    same = _sha256(path, facts.st_mtime_ns, facts.st_size, facts.st_ino) == checksum
    return "" if same else f"{path.name} has other bytes than it had"


def starts_with(path: Path, length: int, checksum: str) -> bool:
    """Whether the file's first `length` bytes are the ones that had this checksum."""
    if not path.exists():
        return length == 0
    with open_file(path) as file:
        content = file.read(length)
    return len(content) == length and hashlib.sha256(content).hexdigest() == checksum


def whole_lines(path: Path, length: int) -> int:
    """How many of the first `length` bytes are whole lines."""
    if not path.exists():
        return 0
    with open_file(path) as file:
        return file.read(length).rfind(b"\n") + 1


def content(path: Path) -> bytes:
    """What a table of a run holds; nothing where there is no such table."""
    try:
        return packs.read(path.parent, path.name)
    except FileNotFoundError:
        return b""


def read_table(path: Path, empty: Sequence[tuple[str, type]] = ()) -> Columns:
    """Each column as an array of int64 or float64; a last line still being written is left out.

    `empty` gives the columns that a table must have, and their types where it has no rows yet.
    """
    lines = content(path).decode(errors="replace").split("\n")[:-1]
    if len(lines) < 2:
        return {name: np.empty(0, kind) for name, kind in empty}
    names = lines[0].split(",")
    if missing := [name for name, _ in empty if name not in names]:
        raise HeadraceError(f"{path} is damaged: its first line lacks {', '.join(missing)}")
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
    names, kept = _header_names(header), lines[-count:]
    found = _as_columns(names, kept)
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
    return _as_columns(_header_names(data[: ends[0]]), lines)


def picked(rows: int, count: int) -> np.ndarray:
    """Which of the rows of a table are at most `count` evenly spaced ones."""
    return np.arange(rows - 1, -1, -max(1, -(-rows // count)))[::-1]


def _header_names(header: bytes) -> list[str]:
    return header.decode(errors="replace").strip().split(",")


def _cells(lines: list[bytes], width: int) -> Iterator[list[float]]:
    """Every line that is a row of so many numbers."""
    for line in lines:
        cells = line.split(b",")
        with suppress(ValueError):
            if len(cells) == width:
                yield [float(cell) for cell in cells]


def _as_columns(names: list[str], lines: list[bytes]) -> Columns:
    values = np.array(list(_cells(lines, len(names))), np.float64).reshape(-1, len(names))
    return {name: values[:, i] for i, name in enumerate(names)} if len(values) else {}
