"""Training many runs in one compiled program. Each stream writes its own ordinary run folder."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import name_of
from headrace.errors import BadSetting
from headrace.manifest import commit, machine_facts
from headrace.progress import Progress, Silent
from headrace.run import Run
from headrace.store import RunFolder, RunWriter
from headrace.training import LOG_EVERY, RECENT, Speed, final_arrays, stop_requests


class FleetResult(NamedTuple):
    """How the runs of a fleet stand."""

    finished: list[str]
    interrupted: list[str]
    diverged: list[str]


def train_fleet(
    runs: Sequence[Run],
    out: str | Path,
    *,
    checkpoint_seconds: float = 300.0,
    stop_after: float | None = None,
    progress: Progress | None = None,
) -> FleetResult:
    """Trains the runs that are not finished yet, together; the same call continues where an earlier one stopped.

    `stop_after` (seconds) ends the call early, with everything saved.
    """
    if len({run.steps for run in runs}) > 1:
        raise BadSetting("the runs of a fleet must have the same number of steps")
    ordered = sorted(runs, key=lambda run: (run.env.name, run.name))
    with ExitStack() as stack:
        entered = [(run, _enter(stack, run, Path(out))) for run in ordered]
        done = [run.name for run, folder in entered if folder.status in ("finished", "diverged")]
        todo = [(run, folder) for run, folder in entered if folder.status not in ("finished", "diverged")]
        if not todo:
            return FleetResult(done, [], [])
        result = _FleetTraining(todo, checkpoint_seconds, stop_after, progress or Silent()).go()
        return result._replace(finished=done + result.finished)


def _enter(stack: ExitStack, run: Run, out: Path) -> RunWriter:
    details = {"agent": name_of(run.agent), "machine": machine_facts(), "commit": commit()}
    return stack.enter_context(RunFolder.open(out / run.name, run.identity(), details))


class _Member:
    """One stream's run: its folder and its last episodes."""

    def __init__(self, run: Run, folder: RunWriter) -> None:
        self.run, self.folder = run, folder
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.diverged = False

    def resume(self) -> Any:
        checkpoint = self.folder.resume()
        self.recent.extend(self.folder.episodes()["return"][-RECENT:])
        return checkpoint

    def log(self, step: int, means: dict[str, float], speed: Speed) -> None:
        mean = float(np.mean(self.recent)) if self.recent else float("nan")
        self.folder.append_metrics({"step": step, "return": mean, **means})
        self.folder.append_speed(step, speed.rate, speed.seconds)

    def freeze(self, quantity: str, step: int) -> None:
        self.diverged = True
        self.folder.set_status("diverged", diverged={"quantity": quantity, "step": step})


class _FleetTraining:
    def __init__(
        self, runs: Sequence[tuple[Run, RunWriter]], save_every: float, stop_after: float | None, progress: Progress
    ) -> None:
        from headrace.engines.reference.fleet import Fleet

        self.members = [_Member(run, folder) for run, folder in runs]
        first = self.members[0].run
        envs: dict[str, Any] = {}
        for member in self.members:
            envs.setdefault(repr(member.run.env), member.run.env.compiled())
        self.steps, self.save_every, self.stop_after, self.progress = first.steps, save_every, stop_after, progress
        self.fleet = Fleet(
            [m.run.agent for m in self.members],
            [envs[repr(m.run.env)] for m in self.members],
            [m.run.seed for m in self.members],
            first.steps,
        )
        self.speed = Speed()

    def go(self) -> FleetResult:
        began = saved = time.monotonic()
        with stop_requests() as stopped:
            self._start()
            while self.fleet.step < self.steps and not stopped():
                self._chunk()
                now = time.monotonic()
                if self.stop_after is not None and now - began > self.stop_after:
                    break
                if now - saved > self.save_every:
                    self._save()
                    saved = now
            self._save()
        return self._end()

    def _start(self) -> None:
        common = set.intersection(*({0, *m.folder.checkpoint_steps()} for m in self.members))
        for member in self.members:  # a fleet that died while saving goes back to where all its streams were saved
            member.folder.go_back_to(max(common))
        checkpoints = [member.resume() for member in self.members]
        if max(common) == 0:
            self.fleet.begin()
        else:
            self.fleet.restore([checkpoint.arrays for checkpoint in checkpoints])
        self.speed.start(self.fleet.step, 0.0)

    def _chunk(self) -> None:
        n = min(LOG_EVERY - self.fleet.step % LOG_EVERY, self.steps - self.fleet.step)
        episodes = self.fleet.run(n)
        step = self.fleet.step
        self.speed.reached(step)
        for i, (quantity, at) in self.fleet.trouble().items():
            if not self.members[i].diverged:
                self.members[i].freeze(quantity, at)
                self.progress.notice(f"{self.members[i].run.name} diverged: {quantity} at step {at:,}")
        means = self.fleet.report() if step % LOG_EVERY == 0 else None
        for i, member in enumerate(self.members):
            if member.diverged:
                continue
            member.folder.append_episodes(episodes[i])
            member.recent.extend(e.episode_return for e in episodes[i])
            if means is not None:
                member.log(step, means[i], self.speed)
        self.progress.show(self.members[0].run, step, self.speed.rate, self._mean_return())

    def _mean_return(self) -> float:
        found = [np.mean(m.recent) for m in self.members if m.recent]
        return float(np.mean(found)) if found else float("nan")

    def _save(self) -> None:
        for member, arrays in zip(self.members, self.fleet.save(), strict=True):
            if not member.diverged:
                member.folder.save_checkpoint(self.fleet.step, arrays, {})

    def _end(self) -> FleetResult:
        step, saved = self.fleet.step, self.fleet.save()
        result = FleetResult([], [], [])
        for member, arrays in zip(self.members, saved, strict=True):
            if member.diverged:
                result.diverged.append(member.run.name)
            elif step < self.steps:
                member.folder.set_status("interrupted")
                result.interrupted.append(member.run.name)
            else:
                digest = member.folder.digest(final_arrays(arrays))
                member.folder.finish({"digest": digest, "seconds": self.speed.seconds, "streams": len(self.members)})
                result.finished.append(member.run.name)
        return result
