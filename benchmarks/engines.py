"""Both engines on every suite: `headrace bench --engine both` for each, and one table of what it found.

python benchmarks/engines.py [--suites minatar,atari] [--variants strq,qrc] [--seconds 10] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SUITES, VARIANTS = "minatar,octax,atari", "dqn,strq,qrc,strq+spr+orth2,qrc+spr+orth"
COLUMNS = (
    ("steps_per_s", ",.0f"), ("update_steps_per_s", ",.0f"), ("p50_ms", ".3f"), ("p99_ms", ".3f"), ("gflops", ".1f"),
    ("gbytes_per_s", ".1f"), ("roofline_fraction", ".0%"), ("peak_rss_mb", ".0f"),
)  # fmt: skip


def bench(suite: str, variant: str, seconds: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        words = ["--suite", suite, "--variant", variant, "--engine", "both", "--seconds", seconds, "--json", str(file)]
        subprocess.run([sys.executable, "-m", "headrace", "bench", *words], check=True, stdout=sys.stderr)
        return json.loads(file.read_text())


def rows(found: dict[str, Any]) -> list[str]:
    """One row for each engine that was measured; the ratio stands with the fast one."""
    place = f"{found['suite']}/{found['game']}" if found["game"] else found["suite"]
    lines = []
    both = found["engine"] == "both"
    for engine in ("learner", "reference") if both else (found["engine"],):
        figures = found[engine] if both else found
        cells = ["-" if (v := figures[key]) is None else format(v, form) for key, form in COLUMNS]
        ratio = f"{found['ratio']:.1f}" if both and engine == "learner" else ""
        lines.append(f"| {place} | {found['variant']} | {engine} | {' | '.join(cells)} | {ratio} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default=SUITES)
    parser.add_argument("--variants", default=VARIANTS)
    parser.add_argument("--seconds", default="10")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    pairs = [(suite, variant) for suite in words.suites.split(",") for variant in words.variants.split(",")]
    found = [bench(suite, variant, words.seconds) for suite, variant in pairs]
    head = ["suite", "agent", "engine", *(key for key, _ in COLUMNS), "ratio"]
    print(f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(row for each in found for row in rows(each)), sep="\n")
    if words.out:
        words.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
