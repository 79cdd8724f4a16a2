"""The latents of compact records: effective rank, silent units and probes of each finished run's last encoder.

python experiments/analyse.py results/minatar_1m       writes latents.json beside every record that has none

`headrace latents` analyses every snapshot of a run as well, and draws t-SNE; what the claims need is the last encoder.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from headrace import manifest
from headrace.agents import VARIANTS
from headrace.analysis.latents import COMPACT, NUMBERS, analyse
from headrace.analysis.records import Record, find_runs


def wanted(folder: Path) -> list[Record]:
    """Finished runs of the nine variants without an analysis; one game after the other, which then is played once."""
    found = [r for r in find_runs(folder).records if r.state == "finished" and r.agent in VARIANTS]
    lacking = [r for r in found if (r.path / COMPACT).is_file() and not (r.path / NUMBERS).is_file()]
    return sorted(lacking, key=lambda r: (r.env, r.name))


def analyse_last(record: Path) -> float:
    """Writes the record's latents.json and returns the effective rank."""
    with tempfile.TemporaryDirectory() as place:  # without the snapshots, which would be analysed too
        for name in (manifest.FILE, COMPACT):
            shutil.copy(record / name, place)
        found = analyse(place, perplexities=())
        shutil.copy(Path(place) / NUMBERS, record)
    return found.last.effective_rank


def main() -> None:
    records = wanted(Path(sys.argv[1]))
    for number, record in enumerate(records, start=1):
        print(f"{number} of {len(records)}: {record.name} {analyse_last(record.path):.1f}", flush=True)


if __name__ == "__main__":
    main()
