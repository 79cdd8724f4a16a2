"""A short run that is stopped, or fails, at any call that changes the disk; then the same command is given again.

`python -m tests.runs.fault_points FOLDER [all]` tries some of the points, at least one for each kind of call, or all.
It prints a line for each point after which a run did not end in what an undisturbed one leaves, and last their number.
"""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.envs import registry
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import HeadraceError
from headrace.runs import lock
from headrace.runs.folder import RunFolder
from headrace.training import curve
from headrace.training.progress import Progress
from headrace.training.single import train
from tests.small_runs import assert_same_result, only_run

STEPS, EVERY, STOPPED = 2000, 700, 1000
CALLS = ("open", "write", "fsync", "ftruncate", "replace", "rename", "unlink", "mkdir", "rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ENDED, SAID, DIED, BROKE = 0, 3, 9, 4  # what the process of an attempt exits with
FAULTS = {  # what a call does at its point
    "killed": "the process is no more",
    "torn": "half of the bytes are written, then the process is no more",
    "short": "half of the bytes are written, as the system may do at any time",
    "broken": "EIO",
    "no room": "ENOSPC",
    "full": "ENOSPC, and so at all later calls that need room",
}


class Point(NamedTuple):
    call: str  # what it does, to which kind of file
    number: int  # of the call among all, from 0
    fault: str


class Toy:
    """Noise; an episode has 40 steps."""

    spec = EnvSpec("toy/noise", (4,), ("stay", "go"))

    def reset(self, seed: int) -> np.ndarray:
        self.random, self.count = np.random.RandomState(seed), 0
        return self.random.rand(4)

    def step(self, action: int) -> TimeStep:
        self.count += 1
        obs, last = self.random.rand(4), self.count % 40 == 0
        return TimeStep(obs, obs, float(obs.sum()) * action, last, False, last)

    def save(self) -> dict[str, Any]:
        kind, keys, *rest = self.random.get_state()
        return {"count": self.count, "random": [kind, keys.tolist(), *rest]}

    def restore(self, saved: dict[str, Any]) -> None:
        self.count = saved["count"]
        kind, keys, *rest = saved["random"]
        self.random.set_state((kind, np.array(keys, np.uint32), *rest))


def register(kind: type[Toy]) -> None:
    """Makes it the environment toy/noise."""
    forms = {"host": registry.Form(lambda *_: kind())}
    registry.FAMILIES["toy"] = registry.Family(("noise",), registry.MinAtarRules(), forms, "a toy")


class Shim:
    """Stands before every call that changes the disk; at that of the point something else happens."""

    def __init__(self, point: Point | None = None) -> None:
        self.point = point
        self.calls: list[str] = []
        for name in CALLS:
            setattr(os, name, partial(self._called, name, getattr(os, name)))
        lock.open = partial(self._called, "create", open)  # type: ignore[attr-defined]

    def _called(self, name: str, call: Callable[..., Any], at: Any, *more: Any, **words: Any) -> Any:
        if name == "open" and not more[0] & WRITING:
            return call(at, *more, **words)
        number = len(self.calls)
        self.calls.append(f"{name} {_kind(at)}")
        if self.point is None or not self._is_due(number, name, *more):
            return call(at, *more, **words)
        fault = self.point.fault
        if fault in ("torn", "short"):
            written = call(at, more[0][: len(more[0]) // 2])
        if fault in ("torn", "killed"):
            os._exit(DIED)
        if fault == "short":
            return written
        code = errno.EIO if fault == "broken" else errno.ENOSPC
        raise OSError(code, os.strerror(code))

    def _is_due(self, number: int, name: str, *more: Any) -> bool:
        assert self.point
        if number == self.point.number:
            return True
        needs_room = name in ("write", "mkdir", "create") or (name == "open" and bool(more[0] & os.O_CREAT))
        return self.point.fault == "full" and number > self.point.number and needs_room


def _kind(at: Any) -> str:
    """A file's name without what differs between files of one kind."""
    name = Path(os.readlink(f"/proc/self/fd/{at}") if isinstance(at, int) else at).name
    return re.sub(r"_[0-9a-f]{8}|\.[0-9a-f]{8}(?=\.new)|\d+", "", name)


def points(calls: list[str]) -> Iterator[Point]:
    for number, call in enumerate(calls):
        for fault in FAULTS:
            if fault not in ("torn", "short") or call.startswith("write"):
                yield Point(call, number, fault)


def some_of(found: list[Point], tried: set[str]) -> list[Point]:
    """One point for each new kind of call, at its last occurrence, with each fault in turn."""
    last = {point.call: point.number for point in found if point.call not in tried}
    tried |= set(last)
    kept = []
    for i, number in enumerate(last.values()):
        at = [point for point in found if point.number == number]
        kept.append(at[i % len(at)])
    return kept


class Quiet(Progress):
    """Asks the process to stop, at the step where it is to."""

    def __init__(self, stop: float) -> None:
        self.stop = stop

    def notice(self, what: str) -> None:
        pass

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        if step >= self.stop:
            os.kill(os.getpid(), signal.SIGTERM)


def go(out: Path, stop: float) -> None:
    train("strq", "toy/noise", steps=STEPS, settings=["network=Mlp((8,), 8)"], out=out, engine="learner", form="host",
          checkpoint_every=EVERY, progress=Quiet(stop))  # fmt: skip


def attempt(out: Path, point: Point | None = None, *, note: Path | None = None, stop: float = math.inf) -> int:
    """What a process of its own exited with that trains the run; `note` is where it writes the calls that it made."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status, noted = ENDED, note.open("w") if note else None
    try:
        shim = Shim(point)
        go(out, stop)
        if noted:
            noted.write("\n".join(shim.calls))
            noted.close()
    except HeadraceError:
        status = SAID
    except BaseException:
        traceback.print_exc()
        status = BROKE
    sys.stderr.flush()
    os._exit(status)


def trouble(out: Path, point: Point, wanted: Path) -> str:
    """What is wrong after the point and a second attempt; empty where all is as in the undisturbed run."""
    first = attempt(out, point)
    expected = {"killed": (DIED,), "torn": (DIED,), "short": (ENDED,)}.get(point.fault, (ENDED, SAID))
    if first not in expected:
        return f"the first process exited with {first}"
    if (second := attempt(out)) != ENDED:
        return f"the second process exited with {second}"
    (run,) = out.glob("[!.]*")  # beside it may stand what was to become the run when its process was killed
    try:
        assert_same_result(run, wanted)
        assert "exact" not in RunFolder.read(run).manifest
        assert files(run) == files(wanted)
    except AssertionError as error:
        return f"it ended in another result: {error}"
    return ""


def files(run: Path) -> dict[str, bytes]:
    """The names of a run's files, with what those hold that do not tell the time."""
    found = {path.relative_to(run): path for path in run.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() if name.parts[0] == "snapshots" else b"" for name, path in found.items()}


def main(folder: Path, everything: bool) -> None:
    register(Toy)
    curve._figure = lambda *_: NoFigure()  # type: ignore[assignment]
    folder.mkdir()
    go(folder / "first", math.inf)  # what is imported or found out once need not be by every attempt
    assert attempt(folder / "whole", note=folder / "calls") == ENDED
    wanted, calls = only_run(folder / "whole"), (folder / "calls").read_text().split("\n")
    assert attempt(folder / "stopped", note=folder / "before", stop=STOPPED) == ENDED
    shutil.copytree(folder / "stopped", folder / "continued")
    assert attempt(folder / "continued", note=folder / "after") == ENDED
    after = (folder / "after").read_text().split("\n")
    tried, kinds = 0, set[str]()
    for start, found in (("anew", list(points(calls))), ("stopped", list(points(after)))):
        for point in found if everything else some_of(found, kinds):
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            if start == "stopped":
                shutil.copytree(folder / start, out)
            tried += 1
            if said := trouble(out, point, wanted):
                print(f"{start}, {point}: {said}", flush=True)
    print(f"{tried} points, {len(calls)} calls of a run, {len(after)} of one that continues")


class NoFigure:
    def savefig(self, drawn: Any, **_: Any) -> None:
        drawn.write(b"a picture")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["all"])
