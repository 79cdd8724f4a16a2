"""Packs runs: their manifests, log points to six digits, latent analyses, and the encoders of a few.

python experiments/pack.py RUNS FOLDER           packs the runs below RUNS into FOLDER/records.jsonl.xz; a run that is
                                                 packed there already is replaced
python experiments/pack.py --unpack RUN FOLDER   writes a packed run as a folder below FOLDER

The form is that of `headrace.packs`. Returns are kept at every log point, which scores need; what else was logged, at the
rows that a curve is drawn from. Encoders are kept of the runs whose names match ENCODERS.
"""

from __future__ import annotations

import base64
import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from headrace import manifest, packs, safetensors_io, snapshots
from headrace.analysis.latents import NUMBERS, saved_encoders
from headrace.analysis.records import CURVE_POINTS, find_runs
from headrace.analysis.rows import picked
from headrace.files import write_atomically
from headrace.store import METRICS
from headrace.tables import content

ENCODERS = "*_minatar-breakout_seed0_*"
WHOLE = ("step", "return")  # columns that are kept at every row


def table(data: bytes) -> dict[str, Any]:
    """A table by columns, every number to six significant digits."""
    names, *rows = [line.split(",") for line in data.decode().split("\n")[:-1]] or [[]]
    kept = set(picked(len(rows), CURVE_POINTS).tolist())
    columns = zip(names, zip(*rows, strict=True), strict=True) if rows else ((name, ()) for name in names)
    return {
        "columns": {
            name: ",".join(short(cell) if name in WHOLE or i in kept else "" for i, cell in enumerate(cells))
            for name, cells in columns
        }
    }


def short(cell: str) -> str:
    """A number to six digits; one that was left out of an earlier pack stays out."""
    return "" if cell == "nan" else f"{float(cell):.6g}" if "." in cell else cell


def encoders(run: Path) -> dict[str, Any]:
    """Every saved encoder of a run as a snapshot."""
    files = {}
    for step, arrays, norms in saved_encoders(run)[0]:
        kept = {name: array for name, array in arrays.items() if name.startswith(snapshots.KEPT)}
        data = safetensors_io.dumps(kept, {"step": str(step), "norms": json.dumps(norms)})
        name = snapshots.path_in(run, step).relative_to(run).as_posix()
        files[name] = {"base64": base64.b64encode(data).decode()}
    return files


def record(run: Path) -> dict[str, Any]:
    """A run's files as a pack holds them; the manifest and the analysis word for word."""
    files: dict[str, Any] = {
        manifest.FILE: packs.read(run, manifest.FILE).decode(),
        METRICS: table(content(run / METRICS)),
    }
    if (run / NUMBERS).exists():
        files[NUMBERS] = (run / NUMBERS).read_text()
    return files | (encoders(run) if fnmatch(run.name, ENCODERS) else {})


def pack(runs: Path, folder: Path) -> int:
    """Packs the runs below a folder; how many. A run with damage is an error, and nothing is written."""
    found = find_runs(runs)
    if found.problems:
        raise SystemExit("\n".join(found.notices()))
    target = folder / packs.FILE
    before = packs.load(target) if target.exists() else {}
    fresh = {r.name: record(r.path) for r in found.records if packs.holder(r.path) is None}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(target, packs.encode({**before, **fresh}))
    return len(fresh)


def main(words: list[str]) -> None:
    if words[0] == "--unpack":
        packs.unpack(Path(words[1]), Path(words[2]) / Path(words[1]).name)
    else:
        print(f"{pack(Path(words[0]), Path(words[1]))} runs packed into {Path(words[1]) / packs.FILE}")


if __name__ == "__main__":
    main(sys.argv[1:])
