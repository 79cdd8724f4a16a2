"""Real runs that take a second: every part of `qrc+spr+orth`, on a network of some hundred parameters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.runs.checkpoints import NAME
from headrace.runs.folder import RunFolder
from headrace.training.progress import Progress
from headrace.training.single import Trained, train
from tests.sweep.support import holding

VARIANT, GAME, STEPS = "qrc+spr+orth", "minatar/breakout", 3000
WAYS = {  # in which a run can be computed
    "compiled": {"engine": "reference", "form": "compiled"},
    "host": {"engine": "reference", "form": "host"},
    "learner": {"engine": "learner", "form": "host"},
}
SETTINGS = ("network=Conv((4,),((3,3),),((2,2),),16)", "aux.objective.horizon=2")


def small_train(out: Path, **changes: Any) -> Trained:
    """The small run; settings that are given come after its own."""
    more = changes.pop("settings", ())
    defaults = {"steps": STEPS, "out": out, "checkpoint_every": 250, "engine": "reference"}
    wanted = {**defaults, **changes, "settings": (*SETTINGS, *more)}
    done = train(VARIANT, GAME, **wanted)
    if done.status == "interrupted" and not changes.keys() & {"progress", "on_step", "on_episode", "on_log"}:
        pytest.exit("asked to stop while a run was trained, which took the request for its own", returncode=2)
    return done


def small_words(out: Path, *more: str, steps: int = STEPS, engine: str = "reference") -> list[str]:
    """The same run as typed on the command line."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    return ["train", VARIANT, GAME, "--steps", str(steps), "--engine", engine, *settings, "--out", str(out), *more]


class Command:
    """`python -m headrace` in a process of its own, whose runs can be held."""

    def __init__(self, programs: Path) -> None:
        self.environment = {
            **os.environ, **holding(), "JAX_COMPILATION_CACHE_DIR": str(programs), "COLUMNS": "80",
        }  # fmt: skip

    def start(self, *words: str, within: str = "true", **options: Any) -> subprocess.Popen[str]:
        """The process; `within` is a shell command that sets its limits."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        shell = ["sh", "-c", f'{within}; exec "$@"', "sh", sys.executable, "-m", "headrace", *words]
        return subprocess.Popen(shell, env=self.environment, **pipes)

    def __call__(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)


class StopAt(Progress):
    """Presses Ctrl-C once the run has reached a step, and remembers what was said."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.notices: list[str] = []

    def notice(self, what: str) -> None:
        self.notices.append(what)

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        if step >= self.step:
            os.kill(os.getpid(), signal.SIGINT)
            self.step = run.steps + 1


def checkpoint_steps(run: Path) -> list[int]:
    """Steps of the checkpoints in a run's folder, the newest last."""
    try:
        names = os.listdir(run / "checkpoints")
    except FileNotFoundError:
        return []
    return sorted(int(found[1]) for name in names if (found := NAME.fullmatch(name)))


def newest_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*.safetensors"))


def only_run(out: Path) -> Path:
    (path,) = (p for p in out.iterdir() if p.is_dir())
    return path


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder: its bytes and when it was last changed."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def assert_same_result(path: Path, wanted: Path) -> None:
    """Two finished runs are equal to the bit: tables, digest, and every array and counter of the last checkpoint."""
    for name in ("episodes.csv", "metrics.csv"):
        assert (path / name).read_bytes() == (wanted / name).read_bytes(), name
    ours, theirs = RunFolder.read(path), RunFolder.read(wanted)
    assert ours.status == theirs.status == "finished"
    assert ours.manifest["digest"] == theirs.manifest["digest"]
    assert_same_saved(ours.latest(), theirs.latest())


def assert_same_saved(ours: Any, theirs: Any) -> None:
    assert ours.step == theirs.step
    assert ours.state == theirs.state
    assert_same_arrays(ours.arrays, theirs.arrays)


def assert_same_arrays(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype, name
        assert array.tobytes() == theirs[name].tobytes(), name
