"""Packs runs: their manifests, log points to a few digits, latent analyses, and the encoders of a few.

python experiments/pack.py RUNS FOLDER           packs the runs below RUNS into FOLDER/records.jsonl.xz
python experiments/pack.py --unpack RUN FOLDER   writes a packed run as a folder below FOLDER

The form is that of `headrace.runs.packs`; packs below RUNS are merged in. Returns are kept at every log
point, which scores need; what else was logged, at the rows that a curve is drawn from. Encoders are kept of runs with
names like ENCODERS.

A run replaces a packed one of the same agent, environment, rules, seed and steps, whatever computed the two. Where the
pack or RUNS has such a run by two engines, they are there to be compared, and a run replaces only one of its own
engine. A run that did not finish replaces none that did.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from headrace.analysis.latents import NUMBERS
from headrace.analysis.records import CURVE_POINTS, Record, find_runs, read_record
from headrace.errors import HeadraceError, counted
from headrace.runs import manifest, packs, snapshots
from headrace.runs.files import storage_errors, write_atomically
from headrace.runs.folder import METRICS
from headrace.runs.tables import Columns, picked, read_table

ENCODERS = "*_minatar-breakout_seed0_*"
WHOLE = ("step", "return")  # columns that are kept at every row, to six digits
DIGITS = 4  # of the others: more cannot be seen in a curve


def shortened(table: Columns) -> dict[str, Any]:
    """A table as a pack holds it: most columns at some rows only, and to fewer digits."""
    some = np.isin(np.arange(len(table["step"])), picked(len(table["step"]), CURVE_POINTS))
    kinds = {name: (some | True, 6) if name in WHOLE else (some, DIGITS) for name in table}
    return {"columns": {name: cells(values, *kinds[name]) for name, values in table.items()}}


def cells(values: np.ndarray, kept: np.ndarray, digits: int) -> str:
    form = "d" if values.dtype.kind == "i" else f".{digits}g"
    return ",".join(f"{v:{form}}" if keep and v == v else "" for v, keep in zip(values.tolist(), kept, strict=True))


def record(run: Path) -> packs.Files:
    """The files of a run's folder as a pack holds them; the manifest and the analysis word for word."""
    table = read_table(run / METRICS)
    files: dict[str, Any] = {METRICS: shortened(table)} if table else {}
    # Lengths and checksums of tables are left out: the pack's tables are shorter ones.
    facts = {name: value for name, value in manifest.load(run).items() if name != "tables"}
    files[manifest.FILE] = manifest.encode(facts).decode()
    if (run / NUMBERS).exists():
        files[NUMBERS] = (run / NUMBERS).read_text()
    if fnmatch(run.name, ENCODERS):
        for path in snapshots.listed(run):
            files[path.relative_to(run).as_posix()] = {"base64": base64.b64encode(path.read_bytes()).decode()}
    return files


def contents(run: Path) -> packs.Files:
    """What a pack holds of a run; one that is packed already stays as it is."""
    pack = packs.holder(run)
    return packs.load(pack)[run.name] if pack else record(run)


def pack(runs: Path, folder: Path) -> list[str]:
    """Packs the runs below a folder; what was done, in lines. Where a run is damaged nothing is written."""
    target = folder / packs.FILE
    found = find_runs(runs)
    if found.problems:
        raise HeadraceError("\n".join(f"{problem.path}: {problem.why}" for problem in found.problems))
    fresh = [r for r in found.records if (packs.holder(r.path) or runs).resolve() != target.resolve()]
    if not fresh:
        raise HeadraceError(f"no run was found in {runs}")
    before = [read_record(folder / name) for name in packs.load(target)] if target.exists() else []
    held, said = merged(before, fresh)
    data = packs.encode({r.name: contents(r.path) for r in held})
    with storage_errors(target, len(data)):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(target, data)
    return [*said, f"{counted(len(fresh), 'run')} read; {target} has {counted(len(held), 'run')} now"]


def merged(before: Sequence[Record], fresh: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """The runs of a pack to which fresh ones are added, and in words which of them gave way to others."""
    engines = any(len({(r.place, r.engine) for r in some}) > len({r.place for r in some}) for some in (before, fresh))
    held: dict[tuple[Any, ...], Record] = {}
    said = []
    for run in [*sorted(before, key=started), *sorted(fresh, key=started)]:
        place = (run.place, run.engine) if engines else run.place
        old = held.get(place, run)
        if old.state == "finished" != run.state:
            said.append(f"{run.name} left out: it is {run.state}, {old.name} is finished")
            continue
        if old.name != run.name:
            said.append(f"{run.name} replaces {old.name}")
        held[place] = run
    return list(held.values()), said


def started(run: Record) -> str:
    return str(run.manifest.get("start", ""))


def unpack(run: Path, folder: Path) -> list[str]:
    out = folder / run.name
    if out.exists():
        raise HeadraceError(f"{out} exists: it is not overwritten")
    with storage_errors(out):
        packs.unpack(run, out)
    return [f"{run.name} unpacked into {folder}"]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="RUNS", type=Path, help="a folder with runs; with --unpack, a packed run")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="where the pack is, or the unpacked run will be")
    parser.add_argument("--unpack", action="store_true", help="write a packed run as a folder")
    said = parser.parse_args(words)
    if said.folder.is_file():
        parser.error(f"{said.folder} is a file, not a folder")
    try:
        print(*(unpack if said.unpack else pack)(said.source, said.folder), sep="\n")
    except HeadraceError as error:
        parser.exit(1, f"pack.py: {error}\n")


if __name__ == "__main__":
    main()
