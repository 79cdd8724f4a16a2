"""Training many runs in one compiled program. Each stream writes its own ordinary run folder."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.errors import BadSetting, HeadraceError
from headrace.runs import snapshots
from headrace.runs.checkpoints import Checkpoint
from headrace.runs.folder import RunFolder, RunWriter
from headrace.runs.footprint import footprint
from headrace.training.health import Finding, Watch
from headrace.training.progress import Progress, Silent
from headrace.training.run import Run, seconds, whole
from headrace.training.single import LOG_EVERY, RECENT, Pace, Speed, details_of, final_arrays, stop_requests

if TYPE_CHECKING:
    from headrace.engines.jax.fleet import Block, Fleet, Saved

STEP = "stream/agent/step"  # the array of a saved stream that counts its steps


class FleetResult(NamedTuple):
    """How the runs of a fleet stand, by name."""

    finished: list[str]
    interrupted: list[str]
    diverged: list[str]
    refused: dict[str, str]  # runs whose folder is not to be had or read, and why


def train_fleet(
    runs: Sequence[Run],
    out: str | Path,
    *,
    checkpoint_every: float | None = None,
    checkpoint_seconds: float = 300.0,
    stop_after: float | None = None,
    progress: Progress | None = None,
) -> FleetResult:
    """Trains the runs that are not finished yet, together; the same call continues where an earlier one stopped.

    `stop_after` (seconds) ends the call early, with everything saved. A run that diverged before keeps its place in
    the program, unwritten: the numbers of a batched product depend on the size of the batch in the last bit.
    """
    every = None if checkpoint_every is None else whole("checkpoint_every", checkpoint_every, 1)
    if stop_after is not None:
        seconds("stop_after", stop_after)
    _require_alike(runs)
    ordered = sorted(runs, key=lambda run: (run.env.name, run.name))
    with ExitStack() as stack:
        members, refused = _enter(stack, ordered, Path(out))
        if not members:
            return FleetResult([], [], [], refused)
        finished = [m.run.name for m in members if m.folder.status == "finished"]
        rows = [m for m in members if m.folder.status != "finished"]
        if all(m.diverged for m in rows):
            return FleetResult(finished, [], [m.run.name for m in rows], refused)
        training = _FleetTraining(rows, Pace(every, checkpoint_seconds), stop_after, progress or Silent())
        result = training.go()
        return result._replace(finished=finished + result.finished, refused=refused)


def _require_alike(runs: Sequence[Run]) -> None:
    """A fleet is one program; what differs between its streams besides numbers and games is an error."""
    for what, found in (
        ("number of steps", {run.steps for run in runs}),
        ("rules of the environment", {run.env.rules for run in runs}),
        ("form of the environment", {run.form for run in runs}),
    ):
        if len(found) > 1:
            raise BadSetting(f"the runs of a fleet must have the same {what}, got {sorted(map(repr, found))}")
    for run in runs:
        if run.engine != "reference":
            raise BadSetting(f"a fleet has the reference engine, {run.name} has engine {run.engine}")


def _enter(stack: ExitStack, runs: Sequence[Run], out: Path) -> tuple[list[_Member], dict[str, str]]:
    members, refused = [], {}
    for run in runs:
        try:
            folder = stack.enter_context(RunFolder.open(out / run.name, run.identity(), details_of(run)))
            folder.require_sound()
            members.append(_Member(run, folder))
        except HeadraceError as error:  # another process has it, or what is in it cannot be read
            refused[run.name] = str(error)
    return members, refused


class _Member:
    """One stream's run: its folder and its last episodes."""

    def __init__(self, run: Run, folder: RunWriter) -> None:
        self.run, self.folder = run, folder
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.diverged = folder.status == "diverged"

    def resume(self) -> Checkpoint | None:
        checkpoint = self.folder.resume()
        self.recent.clear()
        self.recent.extend(self.folder.episodes()["return"][-RECENT:])
        self.watch = Watch(self.run.agent, self.folder.metrics())
        return checkpoint

    def log(self, step: int, means: dict[str, float], speed: Speed) -> list[Finding]:
        """Writes a row; returns what it shows for the first time."""
        mean = float(np.mean(self.recent)) if self.recent else float("nan")
        row = {"step": step, "return": mean, **means}
        self.folder.append_metrics(row)
        self.folder.append_speed(step, speed.rate, speed.seconds)
        return self.watch.see(row)

    def freeze(self, quantity: str, step: int) -> None:
        self.diverged = True
        self.folder.set_status("diverged", diverged={"quantity": quantity, "step": step})

    def placeholder(self, step: int) -> Saved:
        """What fits this run's place in the program, for a run that is no longer written."""
        stream = self.run.stream()
        stream.begin()
        arrays, state = stream.save()
        return {**arrays, STEP: np.asarray(step, np.int32)}, state


def _fleet_of(runs: Sequence[Run], steps: int) -> Fleet:
    agents, seeds = [run.agent for run in runs], [run.seed for run in runs]
    if runs[0].form == "host":
        from headrace.engines.jax.host_fleet import HostFleet
        from headrace.training.pool import Pool

        return HostFleet(agents, Pool([run.env for run in runs]), seeds, steps)
    from headrace.engines.jax.fleet import Fleet

    return Fleet(agents, [run.env.compiled() for run in runs], seeds, steps)


class _FleetTraining:
    def __init__(self, members: Sequence[_Member], pace: Pace, stop_after: float | None, progress: Progress) -> None:
        self.members, self.pace, self.stop_after, self.progress = members, pace, stop_after, progress
        self.steps = members[0].run.steps
        self.fleet = _fleet_of([member.run for member in members], self.steps)
        self.speed = Speed()
        self._written: Future[None] = Future()  # of the last block
        self._written.set_result(None)

    @property
    def live(self) -> list[_Member]:
        return [member for member in self.members if not member.diverged]

    def go(self) -> FleetResult:
        until = time.monotonic() + (float("inf") if self.stop_after is None else self.stop_after)
        try:
            with stop_requests() as stopped:
                self._start()
                with ThreadPoolExecutor(1) as beside:
                    while self.fleet.step < self.steps and self.live and not stopped() and time.monotonic() < until:
                        self._chunk(beside)
                    self._written.result()
                self._save()
                return self._end()
        except Exception as error:
            for member in self.live:
                with suppress(HeadraceError):  # on a full disk; the error that ended the fleet is the one to show
                    member.folder.set_status("failed", cause=f"{type(error).__name__}: {error}")
            raise
        finally:
            self.fleet.close()

    def _start(self) -> None:
        self.progress.say("preparing")
        step, checkpoints = self._resumed()
        for member in self.live:
            for notice in dict.fromkeys(member.folder.notices):
                self.progress.notice(f"{member.run.name}: {notice}")
        if step == 0:
            self.fleet.begin()
            self._keep_snapshots()
        else:
            self.progress.notice(f"continuing from step {step:,}")
            self.fleet.restore([checkpoints.get(m.run.name) or m.placeholder(step) for m in self.members])
        self.pace.saved(step)
        self.speed.start(step, sum(self.live[0].folder.speed()["seconds"][-1:]))

    def _resumed(self) -> tuple[int, dict[str, Saved]]:
        """The newest step at which every stream was saved, where all of them go back to, and what was saved there.

        A fleet that died while saving has streams that are one checkpoint ahead of the others.
        """
        while True:
            saved = [{0, *member.folder.checkpoint_steps()} for member in self.live]
            step = max(set.intersection(*saved))
            ahead = [max(steps) for steps in saved if max(steps) > step]
            if ahead:
                self.progress.notice(
                    f"{len(ahead)} of {len(saved)} runs go back to step {step:,}, where all of the fleet were saved "
                    f"(the furthest was at {max(ahead):,})"
                )
            for member in self.live:
                member.folder.go_back_to(step)
            saved_at = {member.run.name: member.resume() for member in self.live}
            if all((found.step if found else 0) == step for found in saved_at.values()):
                return step, {name: (found.arrays, found.state) for name, found in saved_at.items() if found}

    def _chunk(self, beside: Executor) -> None:
        """One block of steps. What it left is written while the next one runs, unless the streams must stand still."""
        step = self.fleet.step
        block = self.fleet.run(min(LOG_EVERY - step % LOG_EVERY, self.pace.limit(step), self.steps - step))
        self._written.result()
        self._written = beside.submit(self._write, block)
        kept, saved = snapshots.due(block.end, self.steps), self.pace.due(block.end)
        if kept or saved:
            self._written.result()
        if kept:
            self._keep_snapshots()
        if saved:
            self._save()

    def _write(self, block: Block) -> None:
        episodes, trouble = block.episodes(), block.trouble()
        means = block.means() if block.end % LOG_EVERY == 0 else None
        self.speed.reached(block.end)
        for i, (quantity, at) in trouble.items():
            if not self.members[i].diverged:
                self.members[i].freeze(quantity, at)
                self.progress.notice(f"{self.members[i].run.name} diverged: {quantity} at step {at:,}")
        for i, member in enumerate(self.members):
            if member.diverged:
                continue
            member.folder.append_episodes(episodes[i])
            member.recent.extend(e.episode_return for e in episodes[i])
            if means is not None:
                for finding in member.log(block.end, means[i], self.speed):
                    self.progress.notice(f"{member.run.name}: {finding.sentence}")
        self.progress.show(self.members[0].run, block.end, self.speed.rate, self._mean_return())

    def _mean_return(self) -> float:
        found = [np.mean(m.recent) for m in self.live if m.recent]
        return float(np.mean(found)) if found else float("nan")

    def _save(self) -> None:
        for member, (arrays, state) in zip(self.members, self.fleet.save(), strict=True):
            if not member.diverged:
                member.folder.save_checkpoint(self.fleet.step, arrays, state)
        self.pace.saved(self.fleet.step)

    def _keep_snapshots(self) -> None:
        for member, (arrays, _) in zip(self.members, self.fleet.save(), strict=True):
            if not member.diverged:
                member.folder.keep_snapshot(self.fleet.step, arrays)

    def _end(self) -> FleetResult:
        step, saved = self.fleet.step, self.fleet.save()
        result = FleetResult([], [], [], {})
        for member, (arrays, _) in zip(self.members, saved, strict=True):
            if member.diverged:
                result.diverged.append(member.run.name)
            elif step < self.steps:
                member.folder.set_status("interrupted")
                result.interrupted.append(member.run.name)
            else:
                self._finish(member, arrays)
                result.finished.append(member.run.name)
        return result

    def _finish(self, member: _Member, arrays: dict[str, np.ndarray]) -> None:
        digest = member.folder.digest(final_arrays(arrays))
        cost = {"seconds": self.speed.seconds, "streams": len(self.members), **footprint(arrays)}
        member.folder.finish({"digest": digest, **cost})
