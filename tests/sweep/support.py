"""Sweeps of tiny runs, as typed on the command line, and what can be done to their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from headrace.runs.folder import RunFolder
from headrace.sweep.executor import LOCK
from headrace.sweep.plan import grid
from headrace.training.run import Run

TINY = "network=Conv((4,),((3,3),),((2,2),),16)"
PATIENCE = 240.0  # seconds; a busy machine may be slow
HELD = Path(__file__).parent / "held"


def tiny(variants: str, envs: str, seeds: str, steps: int, *settings: str, engine: str = "reference") -> list[Run]:
    return grid(variants, envs, seeds=seeds, steps=steps, settings=(TINY, *settings), engine=engine)


def tiny_words(variants: str, envs: str, seeds: str, steps: int, out: Path, *more: str) -> list[str]:
    """Words that come later count: `--engine learner` among them is the engine."""
    words = [
        "--seeds",
        seeds,
        "--steps",
        str(steps),
        "--set",
        TINY,
        "--engine",
        "reference",
        "--quiet",
        "--out",
        str(out),
    ]
    return ["sweep", variants, envs, *words, *more]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened for too long"
        time.sleep(0.005)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def holding() -> dict[str, str]:
    """The environment of processes whose runs can be held."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(HELD), os.environ.get("PYTHONPATH")]))}


def held(out: Path, step: int, *only: str, writing: bool = False) -> Path:
    """Runs below this folder, or only some, wait once saved at that step or later, until the file is removed; with
    `writing`, they wait while they save."""
    hold = out.parent / ("hold_writing" if writing else "hold")
    new = hold.with_suffix(".new")
    new.write_text(" ".join([str(step), *only]))
    return new.replace(hold)


def newest(folder: Path) -> int:
    """The step of a run's newest checkpoint."""
    names = os.listdir(folder / "checkpoints") if (folder / "checkpoints").exists() else []
    return max((int(name[5:17]) for name in names if name.startswith("step-")), default=0)


def finished(folder: Path) -> bool:
    return (folder / "manifest.json").exists() and RunFolder.read(folder).status == "finished"


def run_names(out: Path) -> list[str]:
    """Every run's folder, and nothing that is left behind half-made."""
    return sorted(path.name for path in out.iterdir() if path.name != LOCK)


def results(out: Path, runs: Iterable[Run]) -> dict[str, tuple[str, bytes, bytes]]:
    """What each run came to: its digest, its episodes and its metrics."""
    found = {}
    for run in runs:
        folder = RunFolder.read(out / run.name)
        assert folder.status == "finished", run.name
        tables = [(folder.path / name).read_bytes() for name in ("episodes.csv", "metrics.csv")]
        found[run.name] = folder.manifest["digest"], tables[0], tables[1]
    return found
