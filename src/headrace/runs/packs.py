"""Packed records: many runs in one file, read as their folders would be.

    <folder>/records.jsonl.xz     JSON lines, compressed: {"format": 1}, then one line for each run

A line is {"run": NAME, "files": {FILE: CONTENT}}. A content is the file's text, or {"base64": BYTES}, or a table as
{"columns": {COLUMN: "1,2,,4"}}, where a cell that was not kept is empty and reads as nan. The run's path is
<folder>/NAME, as if it had its own folder there; a folder of that name is read instead of the packed record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from headrace.errors import HeadraceError
from headrace.runs.files import read_file

FILE = "records.jsonl.xz"
FORMAT = 1

Files = Mapping[str, Any]  # contents by name


def encode(runs: Mapping[str, Files]) -> bytes:
    """The bytes of a pack; equal for equal runs, whatever their order."""
    import lzma

    lines = [{"format": FORMAT}, *({"run": name, "files": dict(sorted(runs[name].items()))} for name in sorted(runs))]
    return lzma.compress("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode())


def load(pack: Path) -> dict[str, Files]:
    """The runs in a pack; HeadraceError names the file where it cannot be read."""
    try:
        facts = pack.stat()
    except OSError as error:
        raise HeadraceError(f"cannot read {pack}: {error.strerror}") from error
    return _load(pack, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=16)
def _load(pack: Path, changed: int, size: int) -> dict[str, Files]:
    import lzma

    try:
        head, *lines = [json.loads(line) for line in lzma.decompress(read_file(pack)).splitlines()]
        if head["format"] != FORMAT:
            raise HeadraceError(f"{pack} has format {head['format']}, this version of headrace reads {FORMAT}")
        return {
            _safe(line["run"], 1): {_safe(name, 2): line["files"][name] for name in line["files"]} for line in lines
        }
    except OSError as error:
        raise HeadraceError(f"cannot read {pack}: {error.strerror}") from error
    except MemoryError as error:
        raise HeadraceError(f"{pack} is damaged: it does not fit into memory") from error
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HeadraceError(f"{pack} is damaged: {error}") from error


def _safe(name: str, depth: int) -> str:
    """The name, unless it would lead out of the run's folder."""
    parts = PurePosixPath(name).parts
    if not 1 <= len(parts) <= depth or "/".join(parts) != name or {"..", "/"} & set(parts):
        raise ValueError(f"{name!r} is no name of a run or its file")
    return name


def runs(pack: Path) -> list[Path]:
    """The paths of the runs in a pack that have no folder of their own."""
    return [run for name in load(pack) if not (run := pack.parent / name).exists()]


def holder(run: Path) -> Path | None:
    """The pack that a run is in; None where the run has its own folder or is in no pack."""
    pack = run.parent / FILE
    return pack if not run.exists() and pack.is_file() and run.name in load(pack) else None


def listed(run: Path) -> list[str]:
    """The names of a packed run's files."""
    pack = holder(run)
    return list(load(pack)[run.name]) if pack else []


def inside(run: Path, folder: str) -> list[Path]:
    """The files in a folder of a run, packed or not."""
    return [*(run / folder).glob("*"), *(run / name for name in listed(run) if name.startswith(f"{folder}/"))]


def read(run: Path, name: str) -> bytes:
    """A file of a run, from its folder or its pack; FileNotFoundError where it has none of that name."""
    pack = holder(run)
    if pack is None:
        return read_file(run / name)
    files = load(pack)[run.name]
    if name not in files:
        raise FileNotFoundError(2, "No such file in the pack", str(run / name))
    try:
        return _bytes(files[name])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HeadraceError(f"{pack} is damaged: {name} of {run.name}: {error}") from error


def _bytes(content: Any) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if "base64" in content:
        return base64.b64decode(content["base64"], validate=True)
    columns: dict[str, str] = content["columns"]
    cells = [[cell or "nan" for cell in text.split(",")] if text else [] for text in columns.values()]
    return "".join(",".join(row) + "\n" for row in (columns, *zip(*cells, strict=True))).encode()


def unpack(run: Path, out: Path) -> None:
    """Writes a packed run's files into a folder, made if absent."""
    if not holder(run):
        raise HeadraceError(f"{run} is in no pack")
    for name in listed(run):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(read(run, name))
