"""A report written to a folder: whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from headrace.analysis.canvas import require_matplotlib
from headrace.analysis.records import find_runs, is_report
from headrace.analysis.report import videos
from headrace.analysis.report.context import Context
from headrace.analysis.report.gallery import Gallery
from headrace.analysis.report.parts import Make, Memory
from headrace.analysis.report.site import Site, require_runs
from headrace.errors import HeadraceError
from headrace.runs.files import write_folder

Say = Callable[[str], None]


class Written(NamedTuple):
    page: Path
    runs: int
    files: int
    notices: list[str]


def write_report(runs: str | Path, out: str | Path, video_count: int = 0, say: Say = lambda _: None) -> Written:
    """Makes the report on all runs below a folder and puts it in place of an earlier one."""
    require_matplotlib()
    root, out = Path(runs), Path(out)
    _require_report_or_nothing(out)
    found = find_runs(root)
    require_runs(root, found)
    context = Context(root, found)
    made, notices = _play(context, video_count, say)
    gallery = Gallery()
    gallery.draw(context.groups, say)
    site = Site(context, Memory(), gallery, video=lambda record, key: videos.shown(record, key, made))
    films: dict[str, Make] = {videos.address(key): partial(bytes, video) for key, video in made.items()}
    files = site.files | films
    write_folder(out, files)
    return Written(out / "index.html", len(found.records), len(files), [*found.notices(), *notices])


def _require_report_or_nothing(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise HeadraceError(f"{out} is a file; the report is a folder. Choose another --out.")
    if out.is_dir() and any(out.iterdir()) and not is_report(out):
        raise HeadraceError(f"{out} is not empty and is not a report, so it is left alone. Choose another --out.")


def _play(context: Context, count: int, say: Say) -> tuple[dict[str, bytes], list[str]]:
    made: dict[str, bytes] = {}
    notices = []
    wanted = videos.chosen(context.found.records, count) if count else []
    for number, record in enumerate(wanted, start=1):
        say(f"video {number} of {len(wanted)}: {record.name}")
        try:
            made[context.key(record)] = videos.play(record)
        except HeadraceError as error:
            notices.append(str(error))
    if len(wanted) < count:
        notices.append(f"videos asked for: {count}; runs with a checkpoint that can be played: {len(wanted)}")
    return made, notices
