"""The command `headrace export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from headrace.cli.output import notify, put

ABOUT = "take a run's agent out of headrace: a learner in C, or its policy in ONNX or C"


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="a run's folder, as `headrace train` names it")
    add("--to", required=True, metavar="KIND", help="learner, which goes on learning; or the policy alone: onnx, c")
    add("--out", required=True, metavar="FOLDER", help="a new folder")


def run(words: argparse.Namespace) -> int:
    from headrace.export import export

    done = export(words.run, words.to, words.out)
    notify(done.saved.notices)
    found = {"path": str(done.path), "to": words.to, "step": done.saved.step, "files": done.files}
    size = f"{sum(done.files.values()):,} bytes"
    put(words, found, f"{done.path}: {done.saved.title}; {size}, see README.md")
    return 0
