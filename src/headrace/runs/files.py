"""Files that are whole or absent, whatever interrupts their writing."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from headrace.errors import HeadraceError, StorageFull

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_FOLDER = {errno.EEXIST, errno.ENOTDIR}


@contextmanager
def storage_errors(path: Path, needed: int = 0) -> Iterator[None]:
    """Turns an operating system's refusal to write into a message for the user."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in NO_ROOM:
            raise StorageFull(path, needed, reason) from error
        wanted = path / "anything" if error.errno in NO_FOLDER else path
        raise HeadraceError(f"cannot write {_in_the_way(wanted) or f'{path}: {reason}'}") from error


def _in_the_way(path: Path) -> str:
    """The file that stands where a folder above the path should be, and what to do; nothing where there is none."""
    above = next((folder for folder in path.parents if folder.exists()), path.parent)
    return f"below {above}: it is a file, not a folder; name a folder with --out" if above.is_file() else ""


def require_folder(path: Path) -> None:
    """Refuses a path that cannot become a folder, before anything is done for it."""
    if said := _in_the_way(path / "anything"):
        raise HeadraceError(f"cannot write {said}")


def open_file(path: Path) -> IO[bytes]:
    """The file, to be read. A pipe or a device in its place is an error: reading one may wait for ever."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise HeadraceError(f"{path} is not a file (a folder, a pipe or a device has its name): remove it")
    return path.open("rb")


def read_file(path: Path) -> bytes:
    """What a file holds; see `open_file`."""
    with open_file(path) as file:
        return file.read()


@contextmanager
def descriptor(path: Path, flags: int) -> Iterator[int]:
    """An open file or folder; what stands there instead (a pipe, a device) is refused without waiting for it."""
    opened = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    try:
        if stat.S_IFMT(os.fstat(opened).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise OSError(errno.EINVAL, "it is no ordinary file")
        yield opened
    finally:
        os.close(opened)


def write_all(opened: int, data: bytes | memoryview) -> None:
    """Writes every byte: the system may take fewer at a time, and does when a disk is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(opened, rest) :]


def read_all(opened: int) -> bytes:
    with open(opened, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def sync_directory(path: Path) -> None:
    """Makes the names in a directory survive a power cut, as fsync does for a file's bytes."""
    with storage_errors(path), descriptor(path, os.O_RDONLY) as opened:
        os.fsync(opened)


def temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def write_durably(path: Path, *data: bytes | memoryview) -> None:
    with descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as opened:
        for piece in data:
            write_all(opened, piece)
        os.fsync(opened)


def write_atomically(path: Path, *data: bytes | memoryview) -> None:
    """After this `path` holds `data`, durably; before, and if it fails, it holds what it held."""
    temporary = temporary_name(path)
    with storage_errors(path, sum(map(len, data))):
        try:
            write_durably(temporary, *data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        sync_directory(path.parent)


def require_writable(path: Path) -> None:
    """The error that `write_atomically` would end in, before there is anything to write."""
    with storage_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = temporary_name(path)
        write_durably(temporary, b"")
        temporary.unlink()


def remove_temporaries(folder: Path) -> None:
    """Clears away what a killed process left while writing atomically."""
    for stale in folder.glob(".*.tmp"):
        stale.unlink(missing_ok=True)


def write_folder(path: Path, files: Mapping[str, Callable[[], bytes]]) -> None:
    """Makes a folder of these files, whole or not at all. An earlier one is gone only once the new one is there."""
    unfinished, old = (path.with_name(f".{path.name}.{end}") for end in ("new", "old"))
    try:
        with storage_errors(path):
            for left in (unfinished, old):  # by a killed process
                shutil.rmtree(left, ignore_errors=True)
            for name, make in files.items():
                (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
                (unfinished / name).write_bytes(make())
            if path.exists():
                path.rename(old)
            unfinished.rename(path)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
