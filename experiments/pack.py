"""Compact records of runs: manifest, log points to six digits, and what latent analyses need (encoder, normaliser).

python experiments/pack.py runs records.tar.gz       writes an archive of one small folder per run
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import tarfile
from pathlib import Path

from headrace import safetensors_io, snapshots
from headrace.store import RunFolder

KEPT = ("stream/agent/params/encoder/", "stream/obs_scale/")


def rounded(path: Path) -> bytes:
    """A table with every number to six significant digits, compressed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    with path.open(newline="") as lines:
        for i, row in enumerate(csv.reader(lines)):
            writer.writerow(row if i == 0 else [f"{float(cell):.6g}" if "." in cell else cell for cell in row])
    return gzip.compress(out.getvalue().encode(), mtime=0)


def record(path: Path) -> dict[str, bytes]:
    folder = RunFolder.read(path)
    files = {"manifest.json": (path / "manifest.json").read_bytes(), "metrics.csv.gz": rounded(path / "metrics.csv")}
    if checkpoint := folder.latest():
        kept = {name: array for name, array in checkpoint.arrays.items() if name.startswith(KEPT)}
        files["latent.safetensors"] = safetensors_io.dumps(kept, {"step": str(checkpoint.step)})
    for file in sorted((path / snapshots.FOLDER).glob("*.safetensors")):
        files[f"{snapshots.FOLDER}/{file.name}"] = file.read_bytes()
    return files


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    with tarfile.open(target, "w:gz") as archive:
        for manifest in sorted(source.glob("*/manifest.json")):
            for name, data in record(manifest.parent).items():
                info = tarfile.TarInfo(f"{manifest.parent.name}/{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    main()
