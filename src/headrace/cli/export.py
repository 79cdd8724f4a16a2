"""The command `headrace export`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

ABOUT = "take a run's agent out of headrace: a learner in C, or its policy in ONNX or C"


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="a run's folder, as `headrace train` names it")
    add("--to", required=True, metavar="KIND", help="learner, which goes on learning; or the policy alone: onnx, c")
    add("--out", required=True, metavar="FOLDER", help="a new folder")


def run(words: argparse.Namespace) -> int:
    from headrace.export import export

    done = export(words.run, words.to, words.out)
    for notice in done.saved.notices:
        print(f"headrace: {notice}", file=sys.stderr)
    found = {"path": str(done.path), "to": words.to, "step": done.saved.step, "files": done.files}
    size = f"{sum(done.files.values()):,} bytes"
    print(json.dumps(found, indent=2) if words.json else f"{done.path}: {done.saved.title}; {size}, see README.md")
    return 0
