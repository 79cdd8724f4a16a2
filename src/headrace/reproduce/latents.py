"""The latents of many finished runs, analysed on all cores: what claims on effective ranks are judged by."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from headrace.errors import counted

# Nothing that computes is imported up here: a worker's first act is to say how many threads its libraries may use.


def analyse_all(paths: Iterable[Path], cores: int, say: Callable[[str], None]) -> None:
    """Writes latents.json for every run that has none; reports runs that cannot be analysed."""
    lacking = [path for path in paths if not _is_analysed(path)]
    if not lacking:
        return
    say(f"effective ranks of {counted(len(lacking), 'run')}")
    with ProcessPoolExecutor(min(cores, len(lacking)), get_context("spawn"), _use_one_core) as workers:
        for number, (path, trouble) in enumerate(zip(lacking, workers.map(analyse_one, lacking), strict=True), start=1):
            say(f"{number} of {len(lacking)}: {path.name}{trouble and f': {trouble}'}")


def _is_analysed(path: Path) -> bool:
    from headrace.analysis.latents import read_latents

    return read_latents(path) is not None


def _use_one_core() -> None:
    from headrace.sweep.worker import one_core

    os.environ.update(one_core())


def analyse_one(path: Path) -> str:
    """Returns what went wrong, if anything did. Leaves out t-SNE, which takes most of the time."""
    from headrace.analysis.latents import analyse
    from headrace.errors import HeadraceError

    try:
        analyse(path, perplexities=())
    except HeadraceError as error:
        return str(error)
    return ""
