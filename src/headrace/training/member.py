"""One run while it is trained: its folder, its sinks, its last episodes and the watch on its health."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from headrace.agents import name_of
from headrace.engines.base import EpisodeResult, HostStream, Saved
from headrace.errors import HeadraceError, TableChanged
from headrace.runs.checkpoints import Checkpoint, final_arrays
from headrace.runs.folder import RunWriter
from headrace.runs.manifest import commit, footprint, machine_facts
from headrace.training.callbacks import Called
from headrace.training.curve import Series, learning_curve
from headrace.training.evaluation import STEP
from headrace.training.health import Finding, Watch
from headrace.training.pace import Speed
from headrace.training.run import Run
from headrace.training.sinks import Sink, Source, open_sinks

RECENT = 100  # episodes in the reported return

Tell = Callable[[str], None]


class Member:
    """One of the runs that a driver trains."""

    def __init__(self, run: Run, folder: RunWriter) -> None:
        self.run, self.folder = run, folder
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.sinks: list[Sink] = []
        self.called: Called | None = None
        found = folder.manifest["diverged"] if folder.status == "diverged" else None
        self.diverged: tuple[str, int] | None = (found["quantity"], found["step"]) if found else None
        self.failed = ""  # why it is not trained further, while others of its fleet are
        self.waits = False  # until others of its fleet are done
        self.resumed_at = -1
        self._checkpoint: Checkpoint | None = None

    @property
    def live(self) -> bool:
        """Whether the run is trained and written; else it only keeps its place in the program."""
        return not (self.diverged or self.failed or self.waits)

    def resume(self) -> None:
        """Makes the folder ready to go on from its last checkpoint, to which the tables are cut back."""
        self._checkpoint = self.folder.resume()
        self.resumed_at = self._checkpoint.step if self._checkpoint else 0
        self.recent.clear()
        self.recent.extend(self.folder.episodes()["return"][-RECENT:])
        self.watch = Watch(self.run.agent, self.folder.metrics())

    def saved(self) -> Saved | None:
        """What the run continues from, given away once: it is large."""
        checkpoint, self._checkpoint = self._checkpoint, None
        return (checkpoint.arrays, checkpoint.state) if checkpoint else None

    def open_sinks(self, names: Sequence[str], step: int, tell: Tell) -> None:
        self.sinks = open_sinks(names, Source(self.run.name, self.folder.path, self.run.identity(), step), tell)

    @property
    def mean_return(self) -> float:
        return float(np.mean(self.recent)) if self.recent else float("nan")

    def ended(self, episodes: Sequence[EpisodeResult]) -> None:
        self.folder.append_episodes(episodes)
        for episode in episodes:
            self.recent.append(episode.episode_return)
            if self.called:
                self.called.on_episode(episode.step, episode)

    def log(self, step: int, means: dict[str, float], speed: Speed) -> list[Finding]:
        """Writes a row of metrics; returns what it shows for the first time."""
        row = {"step": step, "return": self.mean_return, **means}
        self.folder.append_metrics(row)
        self.folder.append_speed(step, speed.rate, speed.seconds)
        for sink in self.sinks:
            sink.log(step, {**row, "steps_per_s": speed.rate})
        if self.called:
            self.called.on_log(step, row)
        return self.watch.see(row)

    @property
    def stopped(self) -> str:
        """Why a callback has stopped the run; empty where none has."""
        return self.called.stopped if self.called else ""

    def interrupt(self) -> None:
        """Records that the run is saved and can be continued."""
        self.folder.set_status("interrupted", **({"cause": self.stopped} if self.stopped else {}))

    def diverge(self, quantity: str, step: int) -> None:
        """From here on nothing more is written of the run."""
        self.diverged = quantity, step
        self.record("diverged", diverged={"quantity": quantity, "step": step})

    def fail(self, cause: str) -> None:
        """From here on nothing more is written of the run; it can be continued from its last checkpoint."""
        self.failed = cause
        self.record("failed", cause=cause)

    def lose(self, change: TableChanged) -> None:
        """Fails the run, as another process has changed its folder."""
        self.fail(f"{type(change).__name__}: {change}")
        with suppress(HeadraceError):
            self.folder.close()

    def record(self, status: str, **details: Any) -> None:
        with suppress(HeadraceError):  # on a full disk; the error that ended the run is the one to show
            self.folder.set_status(status, **details)

    def finish(self, arrays: dict[str, np.ndarray], cost: dict[str, Any]) -> None:
        digest = self.folder.digest(final_arrays(arrays))
        self.folder.finish({"digest": digest, **cost, **footprint(arrays)})

    def draw(self) -> None:
        """Draws the learning curve beside the run's tables."""
        metrics = self.folder.metrics()
        if len(metrics.get("step", ())) == 0:
            return
        label = name_of(self.run.agent)
        title = f"{label} on {self.run.env.name}, seed {self.run.seed}"
        series: list[Series] = [(label, metrics["step"], metrics["return"])]
        if len((found := self.folder.evaluations())["step"]):
            series.append(("evaluation of a frozen copy", found["step"], found["mean"]))
        learning_curve(series, self.folder.path / "curve.png", title)

    def placeholder(self, step: int) -> Saved:
        """What fits this run's place in the program, for a run that is no longer written."""
        stream = self.run.stream()
        if isinstance(stream, HostStream):  # whose environment may be what has failed
            stream.engine.begin(np.zeros(stream.env.spec.frame_shape, np.float32))
            arrays, state = stream.engine.save(), {"env": None}
        else:
            stream.begin()
            arrays, state = stream.save()
        return {**arrays, STEP: np.asarray(step, np.int32)}, state

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


def details_of(run: Run) -> dict[str, Any]:
    """What the manifest says of a run beside its identity."""
    return {"agent": name_of(run.agent), **_program(run.engine)}


@cache
def _program(engine: str) -> dict[str, Any]:
    """The program and the machine, found out once: a process goes on with what it has loaded."""
    return {"machine": {**machine_facts(), "device": _device(engine)}, "commit": commit()}


def _device(engine: str) -> str:
    if engine != "reference":
        return "cpu"
    import jax

    device = jax.devices()[0]
    return f"{device.platform}: {device.device_kind}"
