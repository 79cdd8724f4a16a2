"""The runs below a folder, looked at again and again: only what has changed is read."""

from __future__ import annotations

import os
import time
from pathlib import Path

from headrace.analysis.records import Found, Problem, Record, find_runs, read_record
from headrace.errors import HeadraceError
from headrace.runs import manifest, packs
from headrace.runs.folder import METRICS, SPEED
from headrace.runs.lock import is_held

FILES = (manifest.FILE, METRICS, SPEED)
WHOLE_LOOK = 60.0  # seconds after which everything is searched anew: a quick look sees no new folder far below

Stamp = tuple[object, ...]


class RunCache:
    """The runs below a folder. Nothing is read through a link that leads out of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reads = 0  # runs read again by quick looks
        self._found = Found([], [], 0)
        self._stamps: dict[Path, Stamp] = {}
        self._folders: dict[Path, Stamp] = {}
        self._searched = float("-inf")

    def look(self) -> Found:
        folders = {path: _stamp(path) for path in self._folders or (self.root,)}
        if folders != self._folders or time.monotonic() - self._searched >= WHOLE_LOOK:
            return self._whole()
        try:
            records = [self._again(record) for record in self._found.records]
        except (HeadraceError, OSError):  # a run has gone or cannot be read any more
            return self._whole()
        self._found = Found(records, self._found.problems, self._found.foreign)
        return self._found

    def _whole(self) -> Found:
        self._searched = time.monotonic()
        found = find_runs(self.root)
        inside = [r for r in found.records if not self._outward(r.path)]
        refused = [Problem(r.path, self._outward(r.path)) for r in found.records if self._outward(r.path)]
        self._found = Found(inside, [*found.problems, *refused], found.foreign)
        self._stamps = {record.path: self._state(record) for record in inside}
        self._folders = {path: _stamp(path) for path in {self.root, *(record.path.parent for record in inside)}}
        return self._found

    def _again(self, record: Record) -> Record:
        state = self._state(record)
        if state == self._stamps[record.path]:
            return record
        if why := self._outward(record.path):
            raise HeadraceError(why)
        self.reads += 1
        fresh = read_record(record.path)
        # Stamped before it was read: what changed meanwhile is read at the next look.
        self._stamps[record.path] = (*state[:-1], fresh.state == "running")
        return fresh

    def _state(self, record: Record) -> Stamp:
        """Changes when the run's files do, and when the process that wrote it dies, which changes no file."""
        held = record.manifest.get("status") == "running" and is_held(record.path)
        return *map(_stamp, _files(record.path)), held

    def _outward(self, run: Path) -> str:
        """In words, the first of a run's files that is a link to somewhere else; empty where there is none."""
        links = [path for path in _files(run) if path.is_symlink()]
        leaving = [path.name for path in links if not path.resolve().is_relative_to(self.root.resolve())]
        return f"{leaving[0]} is a link that leads out of {self.root}" if leaving else ""


def _files(run: Path) -> list[Path]:
    """What a run is read from."""
    pack = packs.holder(run)
    return [pack] if pack else [run / name for name in FILES]


def _stamp(path: Path) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
