"""The training loop: drives one stream, or many together, to their end; records each in its own run folder.

What a run writes does not depend on whether it is trained alone or in a fleet, nor on when it is stopped or killed and
continued.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np

from headrace.engines.base import Block, Saved, Streams
from headrace.errors import CheckpointDamaged, EnvironmentFault, HeadraceError, TableChanged
from headrace.runs import snapshots
from headrace.training.callbacks import Callbacks, Called
from headrace.training.evaluation import Evaluations, Evaluator
from headrace.training.member import Member
from headrace.training.pace import LOG_EVERY, Pace, Speed, stop_requests
from headrace.training.progress import Progress

BLOCK_SECONDS = 0.5  # that a single stream runs between two looks at signals and clocks


class Driver:
    """Trains the runs of `members`, which are the rows of `streams`, until they are finished or asked to stop."""

    def __init__(
        self,
        streams: Streams,
        members: Sequence[Member],
        pace: Pace,
        progress: Progress,
        *,
        sinks: Sequence[str] = (),
        callbacks: Callbacks | None = None,  # of a run alone
        evaluations: Evaluations | None = None,
        stop_after: float | None = None,  # seconds
        draw: bool = False,  # a learning curve of each run that is finished
    ) -> None:
        self.streams, self.members, self.pace, self.progress = streams, members, pace, progress
        self.sinks, self.stop_after, self.draw = sinks, stop_after, draw
        self.evaluations = evaluations
        self.evaluators = [Evaluator(m.run, m.folder, evaluations) for m in members] if evaluations else []
        self.single_steps = callbacks is not None and callbacks.on_step is not None
        if callbacks:
            (member,) = members
            member.called = Called(callbacks, member.run, member.folder.path, lambda: streams.save()[0][0])
        self.steps = members[0].run.steps
        self.speed = Speed()
        self._written: Future[None] = Future()  # of the last block
        self._written.set_result(None)
        self._intact = True  # whether nobody else changed the tables

    @property
    def live(self) -> list[Member]:
        return [member for member in self.members if member.live]

    def go(self) -> list[str]:
        """How each run stands afterwards: finished, interrupted, diverged or failed."""
        try:
            with stop_requests() as stopped:
                self._start()
                return self._trained(stopped)
        except EnvironmentFault as fault:
            error = EnvironmentFault(f"{fault}. {self._way_on()}")
            self._failed(error)
            raise error from fault
        except Exception as error:
            self._failed(error)
            raise
        finally:
            self.progress.close()
            for member in self.members:
                member.close()
            self.streams.close()

    def _failed(self, error: Exception) -> None:
        for member in self.live:
            member.record("failed", cause=f"{type(error).__name__}: {error}")

    def _way_on(self) -> str:
        """What to continue from once the environment is fixed."""
        saved = self.live[0].folder.latest()
        if saved is None:
            return "Nothing is saved yet: fix the environment and run the same command again."
        where = f"The {'run is' if len(self.members) == 1 else 'runs are'} saved as of step {saved.step:,}"
        return f"{where}: fix the environment, and the same command continues from there."

    def _notice(self, member: Member, what: str) -> None:
        self.progress.notice(f"{member.run.name}: {what}" if self.streams.lockstep else what)

    # Starting, or continuing

    def _start(self) -> None:
        self.progress.say("preparing (compiling takes a while the first time)")
        step = self.live[0].resumed_at
        for member in self.live:
            for notice in dict.fromkeys(member.folder.notices):
                self._notice(member, notice)
        if step == 0:  # a run that was stopped before its first step begins
            self.streams.begin()
            self._note_faults()
            self._keep_snapshots()
        else:
            self._restore([member.saved() or member.placeholder(step) for member in self.members])
            self._note_faults()
            self.progress.notice(f"continuing from step {step:,}")
        self.pace.saved(step)
        self.speed.start(step, sum(self.live[0].folder.speed()["seconds"][-1:]))
        for member in self.live:
            member.open_sinks(self.sinks, step, self.progress.notice)

    def _restore(self, saved: Sequence[Saved]) -> None:
        try:
            broken_off = self.streams.restore(saved)
        except CheckpointDamaged as error:
            place = self.members[0].folder.path if len(self.members) == 1 else self.members[0].folder.path.parent
            said = f"the checkpoint of {place} does not fit this program: {error}"
            raise HeadraceError(f"{said}; --out FOLDER begins the run anew elsewhere") from error
        for member, why in zip(self.members, broken_off, strict=True):
            if why and member.live:
                self._notice(member, f"{why}: a new episode is begun, and the run is no longer exact")
                member.folder.record_break(self.streams.step, why)

    # Going on

    def _trained(self, stopped: Callable[[], bool]) -> list[str]:
        try:
            self._learn(stopped)
            return self._end()
        except EnvironmentFault:
            self._save_what_was_learnt()
            raise

    def _learn(self, stopped: Callable[[], bool]) -> None:
        until = time.monotonic() + (float("inf") if self.stop_after is None else self.stop_after)
        with ThreadPoolExecutor(1) as beside:
            while self.streams.step < self.steps and not stopped() and time.monotonic() < until:
                if not self.live or self.members[0].stopped:
                    break
                self._block(beside)
            self._written.result()

    def _block(self, beside: Executor) -> None:
        """One block of steps. A fleet's is written while the next one runs, unless the streams must stand still."""
        step = self.streams.step
        n = min(LOG_EVERY - step % LOG_EVERY, self.pace.limit(step), self.steps - step)
        if self.evaluations:
            n = min(n, self.evaluations.limit(step))
        if not self.streams.lockstep:
            block = self.streams.run(1 if self.single_steps else min(n, self.speed.steps_in(BLOCK_SECONDS)))
            self._write(block)
        else:
            block = self.streams.run(n)
            self._written.result()
            self._written = beside.submit(self._write, block)
        kept, saved = snapshots.due(block.end, self.steps), self.pace.due(block.end) or not self._intact
        judged = self.evaluations is not None and self.evaluations.due(block.end, self.steps)
        if kept or saved or judged:
            self._written.result()
        if kept:
            self._keep_snapshots()
        if judged:  # before saving: a run that continues from here has the row
            self._evaluate()
        if saved and self.live:
            self._save()

    def _note_faults(self) -> None:
        """A stream whose environment has failed is written no further; alone, the fault has ended the training."""
        for i, fault in list(self.streams.faults.items()):
            if self.members[i].live:
                self.members[i].fail(f"{type(fault).__name__}: {fault}")
                self._notice(self.members[i], f"failed{', the others go on' if self.live else ''}: {fault}")

    def _write(self, block: Block) -> None:
        self._note_faults()
        episodes, trouble = block.episodes(), block.trouble()
        means = block.means() if block.end % LOG_EVERY == 0 else None
        self.speed.reached(block.end)
        for i, (quantity, at) in trouble.items():
            self._diverged(self.members[i], quantity, at)
        for i, member in enumerate(self.members):
            if not member.live:
                continue
            member.ended(episodes[i])
            if self.single_steps and member.called:
                member.called.on_step(block.end)
            if means is not None:
                for finding in member.log(block.end, means[i], self.speed):
                    self._notice(member, finding.sentence)
        if means is not None and self.live:
            rows = [row for row, member in zip(means, self.members, strict=True) if member.live]
            self.progress.metrics({name: float(np.mean([row[name] for row in rows])) for name in rows[0]})
        self.progress.show(self.members[0].run, block.end, self.speed.rate, self._mean_return())
        self._intact = all(member.folder.intact() for member in self.live)

    def _diverged(self, member: Member, quantity: str, step: int) -> None:
        if not member.live:
            return
        member.diverge(quantity, step)
        if len(self.members) > 1:  # alone, it is the error that ends the training
            self.progress.notice(f"{member.run.name} diverged: {quantity} at step {step:,}")

    def _mean_return(self) -> float:
        found = [member.mean_return for member in self.live if member.recent]
        return float(np.mean(found)) if found else float("nan")

    # Saving, and the end

    def _save(self) -> list[Saved]:
        """Saves all runs. One whose tables another process changed is not written any more; the others go on."""
        saved = self.streams.save()
        self._note_faults()
        for member, (arrays, state) in zip(self.members, saved, strict=True):
            try:
                if member.live:
                    member.folder.save_checkpoint(self.streams.step, arrays, state)
            except TableChanged as change:
                member.lose(change)
                if not self.live:
                    raise
                self._notice(member, str(change))
        self.pace.saved(self.streams.step)
        return saved

    def _save_what_was_learnt(self) -> None:
        """After a fault: saves the stream without its environment, unless a checkpoint with it stands at this step.

        In a fleet some environments have taken the step and some have not: it goes back to its last checkpoint.
        """
        step, folder = self.streams.step, self.members[0].folder
        if self.streams.lockstep:
            return
        try:
            if step > 0 and step not in folder.checkpoint_steps():
                self._save()
        except HeadraceError as error:  # on a full disk; the fault is what ended the run
            self.progress.notice(str(error))

    def _evaluate(self) -> None:
        for member, evaluator, (arrays, _) in zip(self.members, self.evaluators, self.streams.save(), strict=True):
            if member.live:
                evaluator.at(self.streams.step, arrays)

    def _keep_snapshots(self) -> None:
        for member, (arrays, _) in zip(self.members, self.streams.save(), strict=True):
            if member.live:
                member.folder.keep_snapshot(self.streams.step, arrays)

    def _end(self) -> list[str]:
        saved = self._save() if self.live else [({}, {})] * len(self.members)
        return [self._ended(member, arrays) for member, (arrays, _) in zip(self.members, saved, strict=True)]

    def _ended(self, member: Member, arrays: dict[str, np.ndarray]) -> str:
        if not member.live:
            return "diverged" if member.diverged else "failed"
        if self.streams.step < self.steps:
            member.interrupt()
            return "interrupted"
        if self.draw:
            member.draw()
        shared = {"streams": len(self.members)} if self.streams.lockstep else {}
        member.finish(arrays, {"seconds": self.speed.seconds, **shared})
        return "finished"
