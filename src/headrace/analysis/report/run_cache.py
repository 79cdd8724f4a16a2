"""The runs below a folder, looked at again and again: only what has changed is read."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.analysis.records import Found, Record, find_runs, read_record
from headrace.errors import HeadraceError
from headrace.runs import manifest, packs
from headrace.runs.folder import METRICS, SPEED
from headrace.runs.lock import is_held

FILES = (manifest.FILE, METRICS, SPEED)

Stamp = tuple[object, ...]


class RunCache:
    """The runs below a folder. Nothing is read through a link that leads out of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reads = 0
        self._kept: dict[Path, tuple[Stamp, Record]] = {}

    def look(self) -> Found:
        return find_runs(self.root, self._read)

    def _read(self, run: Path) -> Record:
        """The run as it is now. Whether its process lives counts, as its death changes no file."""
        pack = packs.holder(run)
        files = [pack] if pack else [run / name for name in FILES]
        if why := self._outward(files):
            raise HeadraceError(why)
        stamp = (*map(_stamp, files), is_held(run))  # before it is read: what changes meanwhile is read the next time
        if run not in self._kept or self._kept[run][0] != stamp:
            self.reads += 1
            self._kept[run] = stamp, read_record(run)
        return self._kept[run][1]

    def _outward(self, files: list[Path]) -> str:
        """In words, the first of a run's files that is a link to somewhere else; empty where there is none."""
        links = [path for path in files if path.is_symlink()]
        leaving = [path.name for path in links if not path.resolve().is_relative_to(self.root.resolve())]
        return f"{leaving[0]} is a link that leads out of {self.root}" if leaving else ""


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
