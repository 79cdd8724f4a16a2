"""The command `headrace report`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from headrace.cli.output import notify, put

ABOUT = "tables, figures and a page of all runs"


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("runs", metavar="RUNS", help="a folder of runs, at any depth, finished or not")
    add("--out", default="report", metavar="FOLDER", help="where the report goes; an earlier one is replaced (report)")
    add("--videos", type=number, default=0, metavar="N", help="also play an episode with N of the runs (0)")
    add("--quiet", action="store_true", help="say nothing while it is made")


def run(words: argparse.Namespace) -> int:
    from headrace.analysis.report.folder import write_report
    from headrace.errors import counted
    from headrace.training.run import whole

    say = (lambda _: None) if words.quiet else (lambda what: print(what, file=sys.stderr, flush=True))
    written = write_report(words.runs, words.out, whole("videos", words.videos, 0, 10_000), say)
    notify(written.notices)
    text = f"{written.page}: {counted(written.runs, 'run')}, {counted(written.files, 'file')}"
    put(words, {**written._asdict(), "page": str(written.page)}, text)
    return 0
