"""Training: drive a stream to its end, write what happens, survive whatever happens."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent, name_of
from headrace.engines.base import Stream
from headrace.envs.registry import Environment
from headrace.errors import CheckpointDamaged, Diverged, EnvironmentFault, HeadraceError, unknown
from headrace.runs import snapshots
from headrace.runs.files import require_folder
from headrace.runs.folder import RunFolder, RunWriter, Score, score
from headrace.runs.footprint import footprint
from headrace.runs.manifest import FILE, commit, machine_facts
from headrace.training.curve import learning_curve
from headrace.training.health import Watch
from headrace.training.progress import Progress, Silent
from headrace.training.run import Run, make_run, whole
from headrace.training.sinks import SINKS, Sink, open_sinks

LOG_EVERY = 1000  # steps between two rows of metrics
RECENT = 100  # episodes in the reported return
CHUNK_SECONDS = 0.5  # about how long the stream runs before the host looks up


class Trained(NamedTuple):
    """How a call of `train` ended."""

    path: Path
    status: str  # finished or interrupted
    steps_done: int
    score: Score | None
    did_nothing: bool  # the run had been finished before


def train(
    agent: str | Agent,
    env: str | Environment,
    *,
    seed: int = 0,
    steps: float = 5_000_000,
    settings: Sequence[str] = (),
    out: str | Path = "runs",
    engine: str = "auto",
    form: str = "auto",
    sinks: Sequence[str] = (),
    checkpoint_every: float | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Progress | None = None,
) -> Trained:
    """Trains an agent in an environment, or continues exactly where an earlier call of the same run stopped.

    Args:
        agent: A name (`headrace variants` lists them) or an `Agent`.
        env: A name, such as `minatar/breakout` or `gym/CartPole-v1`.
        seed: Of all random numbers of the run.
        steps: Environment steps of the whole run.
        settings: Changes of the agent, such as `td.lr=3e-4`, and of the environment's rules, such as `env.sticky=0`.
        out: The folder in which the run's own folder is made.
        engine: `learner` (C), `reference` (JAX), or `auto`: the learner where it can compute the agent.
        form: Of the environment: `compiled`, `host`, or `auto`: what the engine uses.
        sinks: Where metrics are sent too: `tensorboard`, `wandb`, `mlflow`, `trackio`.
        checkpoint_every: Steps between two checkpoints, instead of `checkpoint_seconds`.
        checkpoint_seconds: Seconds between two checkpoints.
        progress: What is told of the progress; nothing by default.

    Returns:
        The run's folder, how it ended, the steps that are done, and its score.

    Example:
        ```python
        done = headrace.train("qrc", "minatar/breakout", steps=20_000, settings=["td.lr=3e-4"])
        print(done.path, done.score)
        ```
    """
    run = make_run(agent, env, seed=seed, steps=steps, settings=settings, engine=engine, form=form)
    every = None if checkpoint_every is None else whole("checkpoint_every", checkpoint_every, 1)
    _require(sinks)
    return train_run(run, out, sinks, Pace(every, checkpoint_seconds), progress or Silent())


def _require(sinks: Sequence[str]) -> None:
    """A sink that cannot be had is said before anything is written."""
    for name in sinks:
        if name not in SINKS:
            raise unknown("sink", name, SINKS)
        if find_spec(SINKS[name].package) is None:
            raise HeadraceError(f"the sink {name!r} needs a package that is missing: pip install 'headrace[{name}]'")


def train_run(
    run: Run,
    out: str | Path,
    sinks: Sequence[str],
    pace: Pace,
    progress: Progress,
    *,
    draw: bool = True,
) -> Trained:
    path = Path(out) / run.name
    if ended := _ended_before(path, run):
        return ended
    require_folder(path)
    stream = run.stream()  # an environment or a network that cannot be had is said before anything is written
    with RunFolder.open(path, run.identity(), details_of(run)) as folder:
        if ended := _ended(folder):
            return ended
        if run.notice:
            progress.notice(run.notice)
        return _Training(run, stream, folder, sinks, pace, progress, draw).go()


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


def _ended_before(path: Path, run: Run) -> Trained | None:
    """As `_ended`, found out by reading alone: running a finished run again changes not even a time stamp."""
    if not (path / FILE).is_file():
        return None
    folder = RunFolder.read(path)
    return _ended(folder) if folder.identity == run.identity() else None


def _ended(folder: RunFolder) -> Trained | None:
    """What there is to say of a run that has nothing left to do."""
    if folder.status == "diverged":
        raise _diverged(folder, folder.manifest["diverged"]["quantity"], folder.manifest["diverged"]["step"])
    if folder.status == "finished":
        folder.require_sound()
        return Trained(folder.path, "finished", folder.identity["steps"], score(folder.metrics()), did_nothing=True)
    return None


def _diverged(folder: RunFolder, quantity: str, step: int) -> Diverged:
    """The error that also says what is left of the run."""
    saved = folder.latest()
    return Diverged(quantity, step, saved.step if saved else None)


class Pace:
    """When to save: every so many steps where that is asked for, else every so many seconds."""

    def __init__(self, steps: int | None, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self._saved_at, self._saved_step = time.monotonic(), 0

    def due(self, step: int) -> bool:
        if self.steps is not None:
            return step // self.steps > self._saved_step // self.steps
        return time.monotonic() - self._saved_at >= self.seconds

    def saved(self, step: int) -> None:
        self._saved_at, self._saved_step = time.monotonic(), step

    def limit(self, step: int) -> int:
        """Steps until the next save that is fixed by its step."""
        return self.steps - step % self.steps if self.steps is not None else LOG_EVERY


class _Training:
    def __init__(
        self,
        run: Run,
        stream: Stream,
        folder: RunWriter,
        sinks: Sequence[str],
        pace: Pace,
        progress: Progress,
        draw: bool,
    ) -> None:
        self.run, self.stream, self.folder, self.pace, self.progress = run, stream, folder, pace, progress
        self.sink_names, self.sinks, self.draw = sinks, list[Sink](), draw
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.speed = Speed()

    def go(self) -> Trained:
        try:
            with stop_requests() as stopped:
                self._start()
                self._learn(stopped)
                return self._end()
        except EnvironmentFault as fault:
            told = EnvironmentFault(f"{fault}. {self._way_on()}")
            self._record("failed", cause=f"{type(told).__name__}: {told}")
            raise told from fault
        except Diverged as error:
            self._record("diverged", diverged={"quantity": error.quantity, "step": error.step})
            raise _diverged(self.folder, error.quantity, error.step) from error
        except Exception as error:
            self._record("failed", cause=f"{type(error).__name__}: {error}")
            raise
        finally:
            self.progress.close()
            for sink in self.sinks:
                sink.close()

    def _learn(self, stopped: Callable[[], bool]) -> None:
        try:
            while self.stream.step < self.run.steps and not stopped():
                self._chunk()
        except EnvironmentFault:
            self._save_what_was_learnt()
            raise
        self._save()

    def _save_what_was_learnt(self) -> None:
        """Saves the stream without its environment, unless a checkpoint with it already stands at this step."""
        step = self.stream.step
        try:
            if step > 0 and step not in self.folder.checkpoint_steps():
                self._save()
        except HeadraceError as error:  # on a full disk; the fault is what ended the run
            self.progress.notice(str(error))

    def _way_on(self) -> str:
        """What there is to go on from once the environment is mended."""
        saved = self.folder.latest()
        if saved is None:
            return "Nothing is saved yet: mend the environment and run the same command again."
        where = f"The run is saved as of step {saved.step:,}"
        return f"{where}: mend the environment, and the same command goes on from there."

    def _record(self, status: str, **details: Any) -> None:
        with suppress(HeadraceError):  # on a full disk; the error that ended the run is the one to show
            self.folder.set_status(status, **details)

    def _start(self) -> None:
        self.progress.say("preparing (compiling takes a while the first time)")
        checkpoint = self.folder.resume()
        for notice in self.folder.notices:
            self.progress.notice(notice)
        if checkpoint is None or checkpoint.step == 0:  # a run that was stopped before its first step begins
            self.stream.begin()
            self._keep_snapshot()
        else:
            self._restore(checkpoint.arrays, checkpoint.state)
            self.recent.extend(self.folder.episodes()["return"][-RECENT:])
            self.progress.notice(f"continuing from step {checkpoint.step:,}")
        self.pace.saved(self.stream.step)
        self.speed.start(self.stream.step, sum(self.folder.speed()["seconds"][-1:]))
        self.watch = Watch(self.run.agent, self.folder.metrics())
        self._open_sinks(self.stream.step)

    def _open_sinks(self, step: int) -> None:
        run, path = self.run, self.folder.path
        self.sinks = open_sinks(self.sink_names, run.name, path, run.identity(), step, self.progress.notice)

    def _restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> None:
        try:
            why = self.stream.restore(arrays, state)
        except CheckpointDamaged as error:
            said = f"the checkpoint of {self.folder.path} does not fit this program: {error}"
            raise HeadraceError(f"{said}; --out FOLDER begins the run anew elsewhere") from error
        if why:
            self.progress.notice(f"{why}: a new episode is begun, and the run is no longer exact")
            self.folder.record_break(self.stream.step, why)

    def _chunk(self) -> None:
        step = self.stream.step
        n = min(self.speed.steps_in(CHUNK_SECONDS), LOG_EVERY - step % LOG_EVERY, self.pace.limit(step))
        episodes = self.stream.run(min(n, self.run.steps - step))
        step = self.stream.step
        if trouble := self.stream.trouble():
            raise Diverged(*trouble)
        self.speed.reached(step)
        self.folder.append_episodes(episodes)
        self.recent.extend(e.episode_return for e in episodes)
        if step % LOG_EVERY == 0:
            self._log(step)
        if snapshots.due(step, self.run.steps):
            self._keep_snapshot()
        if self.pace.due(step):
            self._save()
        self.progress.show(self.run, step, self.speed.rate, self._return())

    def _return(self) -> float:
        return float(np.mean(self.recent)) if self.recent else float("nan")

    def _log(self, step: int) -> None:
        means = self.stream.report()
        row = {"step": step, "return": self._return(), **means}
        self.folder.append_metrics(row)
        self.folder.append_speed(step, self.speed.rate, self.speed.seconds)
        self.progress.metrics(means)
        for finding in self.watch.see(row):
            self.progress.notice(finding.sentence)
        for sink in self.sinks:
            sink.log(step, {**row, "steps_per_s": self.speed.rate})

    def _save(self) -> None:
        arrays, state = self.stream.save()
        self.folder.save_checkpoint(self.stream.step, arrays, state)
        self.pace.saved(self.stream.step)

    def _keep_snapshot(self) -> None:
        self.folder.keep_snapshot(self.stream.step, self.stream.save()[0])

    def _end(self) -> Trained:
        step, path = self.stream.step, self.folder.path
        if step < self.run.steps:
            self.folder.set_status("interrupted")
            return Trained(path, "interrupted", step, score(self.folder.metrics()), did_nothing=False)
        arrays, _ = self.stream.save()
        if self.draw:
            self._draw()
        digest = self.folder.digest(final_arrays(arrays))
        self.folder.finish({"digest": digest, "seconds": self.speed.seconds, **footprint(arrays)})
        return Trained(path, "finished", step, score(self.folder.metrics()), did_nothing=False)

    def _draw(self) -> None:
        metrics = self.folder.metrics()
        if len(metrics.get("step", ())) == 0:
            return
        label = name_of(self.run.agent)
        title = f"{label} on {self.run.env.name}, seed {self.run.seed}"
        try:
            learning_curve([(label, metrics["step"], metrics["return"])], self.folder.path / "curve.png", title)
        except ImportError:
            self.progress.notice("no learning curve was drawn: pip install 'headrace[plots]'")


def final_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a digest of a run covers: parameters, traces and histories, normalisers."""
    wanted = ("stream/agent/", "stream/obs_scale/", "stream/reward_scale/")
    return {name: array for name, array in arrays.items() if name.startswith(wanted)}


class Speed:
    """Steps per second, over the last chunks and without the time that compilation took; seconds of the whole run."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=12)
        self.seconds = 0.0
        self.rate = float("nan")

    def start(self, step: int, seconds_before: float) -> None:
        self._marks.append((time.monotonic(), step))
        self._began, self.seconds = time.monotonic() - seconds_before, seconds_before

    def reached(self, step: int) -> None:
        now = time.monotonic()
        if len(self._marks) == 1 and self.rate != self.rate:  # the first chunk compiled the program
            self._marks.clear()
            self.rate = 0.0
        else:
            then, since = self._marks[0]
            self.rate = (step - since) / max(now - then, 1e-9)
        self._marks.append((now, step))
        self.seconds = now - self._began

    def steps_in(self, seconds: float) -> int:
        """About how many steps fit into that time; few as long as nothing is known."""
        return max(10, min(LOG_EVERY, int(self.rate * seconds))) if self.rate > 0 else 10


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C and a request to terminate are noted instead of killing; a second Ctrl-C kills."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: Any) -> None:
        if seen and number == signal.SIGINT:
            raise KeyboardInterrupt
        seen.append(number)

    old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
