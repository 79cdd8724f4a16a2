"""Making a run's folder, and claiming it for one process."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import secrets
import shutil
import socket
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from headrace.errors import HeadraceError, RunConflict
from headrace.runs import manifest
from headrace.runs.files import storage_errors, sync_directory, write_durably

LOCK = "lock"
HELD: weakref.WeakSet[IO[str]] = weakref.WeakSet()
STALE = 3600.0  # seconds after which an unfinished folder is taken for a killed process's


def _let_go() -> None:
    """A forked child holds no lock: it must not write, nor keep the run from others when the parent is gone."""
    for lock in list(HELD):
        lock.close()


os.register_at_fork(after_in_child=_let_go)


def create(path: Path, content: bytes, folders: Sequence[str], files: Sequence[str]) -> None:
    """Makes a run's folder with this manifest unless there is one: all of it at once, or nothing."""
    _require_run_or_nothing(path)
    if (path / manifest.FILE).exists():
        return
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    with storage_errors(path, len(content)):
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_stale(path)
        try:
            _fill(unfinished, content, folders, files)
            _appear(unfinished, path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        sync_directory(path.parent)


def _require_run_or_nothing(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise RunConflict(f"{path} is a file, not a run's folder. Choose another folder.")
    if path.is_dir() and any(path.iterdir()) and not (path / manifest.FILE).is_file():
        raise RunConflict(f"{path} is not empty and is not a run (no {manifest.FILE}). Choose another folder.")


def _fill(unfinished: Path, content: bytes, folders: Sequence[str], files: Sequence[str]) -> None:
    unfinished.mkdir()
    for name in folders:
        (unfinished / name).mkdir()
    for name in files:
        (unfinished / name).touch()
    write_durably(unfinished / manifest.FILE, content)
    sync_directory(unfinished)


def _appear(unfinished: Path, path: Path) -> None:
    """Gives the folder its name, unless another process made the same run a moment earlier."""
    try:
        os.rename(unfinished, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        _require_run_or_nothing(path)


def _clear_stale(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                shutil.rmtree(left, ignore_errors=True)


def claim(path: Path, name: str = LOCK, doing: str = "training the run in") -> IO[str]:
    """A lock that this process alone holds until it closes it or dies; RunConflict if another has it.

    In a child that it forks the lock is closed.
    """
    lock = _locked(path, name, doing)
    while not _is_at(lock, path / name):  # whoever had it has removed the file a moment ago
        lock.close()
        lock = _locked(path, name, doing)
    HELD.add(lock)
    with suppress(OSError):  # for a message only; a full disk may refuse it
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"{os.getpid()} {socket.gethostname()}".encode())
    return lock


def _locked(path: Path, name: str, doing: str) -> IO[str]:
    with storage_errors(path / name):
        lock = open(path / name, "a+")  # noqa: SIM115 - it stays open while the run is written
    try:
        _lock_patiently(lock)
    except OSError as error:
        with lock:
            if not isinstance(error, BlockingIOError):
                raise HeadraceError(f"cannot lock {path / name}: {error.strerror}") from error
            raise RunConflict(f"another process ({_holder(lock)}) is {doing} {path}") from error
    return lock


def _is_at(lock: IO[str], path: Path) -> bool:
    """Whether the open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except OSError:
        return False


def _lock_patiently(lock: IO[str]) -> None:
    """Somebody who only asks whether the lock is held has it for an instant."""
    for pause in (0.001, 0.01, 0.05):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(pause)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock at this moment."""
    try:
        with open(path / LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file: nobody ever held it
        return False
    return False


def _holder(lock: IO[str]) -> str:
    """The number of the process, and the machine where that is another one: folders may lie on shared storage."""
    lock.seek(0)
    pid, _, host = lock.read(300).partition(" ")
    return f"pid {pid or 'unknown'}" + (f" on {host}" if host not in ("", socket.gethostname()) else "")
