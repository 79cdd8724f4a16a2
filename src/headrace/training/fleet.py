"""Training many runs in one compiled program. Each stream writes its own ordinary run folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from headrace.engines.base import Streams
from headrace.errors import BadSetting, HeadraceError
from headrace.runs.folder import KEPT_CHECKPOINTS, RunFolder
from headrace.training.driver import Driver
from headrace.training.evaluation import evaluations
from headrace.training.member import Member, details_of
from headrace.training.pace import LOG_EVERY, Pace
from headrace.training.progress import Progress
from headrace.training.run import Run, seconds, whole


class FleetResult(NamedTuple):
    """How the runs of a fleet stand, by name."""

    finished: list[str]
    interrupted: list[str]
    diverged: list[str]
    failed: dict[str, str]  # runs whose environment or folder failed while others went on, and why
    refused: dict[str, str]  # runs whose folder cannot be locked or read, and why


def train_fleet(
    runs: Sequence[Run],
    out: str | Path,
    *,
    checkpoint_every: float | None = None,
    checkpoint_seconds: float = 300.0,
    stop_after: float | None = None,
    eval_every: float | None = None,
    eval_episodes: float = 10,
    progress: Progress | None = None,
) -> FleetResult:
    """Trains the runs that are not finished yet, together; the same call continues where an earlier one stopped.

    `stop_after` (seconds) ends the call early, with everything saved. Runs that cannot go on from the same
    step, or have failed before, are trained after the others. Each time all have their place in the program, those that
    wait, failed or diverged unwritten: the numbers of a batched product depend on its size in the last bit.
    """
    every = None if checkpoint_every is None else whole("checkpoint_every", checkpoint_every, 1)
    if stop_after is not None:
        seconds("stop_after", stop_after)
    wanted = evaluations(eval_every, eval_episodes)
    if wanted and wanted.every % LOG_EVERY:
        raise BadSetting(f"eval_every of a fleet must be a multiple of {LOG_EVERY:,}, got {wanted.every:,}")
    _require_alike(runs)
    ordered = sorted(runs, key=lambda run: (run.env.name, run.name))
    with ExitStack() as stack:
        members, refused = _enter(stack, ordered, Path(out))
        stands = {member.run.name: member.folder.status for member in members}
        rows = [member for member in members if member.folder.status != "finished"]
        left = [member for member in rows if member.live]
        pace, shown = Pace(every, checkpoint_seconds), progress or Progress()
        until = None if stop_after is None else time.monotonic() + stop_after
        while left:
            chosen = _together([member for member in left if member.folder.status != "failed"] or left, shown.notice)
            left = [member for member in left if member not in chosen]
            if left:
                shown.notice(f"trained after the others: {', '.join(member.run.name for member in left)}")
            for member in rows:
                member.waits = member not in chosen
            seconds_left = None if until is None else until - time.monotonic()
            streams = _streams_of([member.run for member in rows])
            ended = Driver(streams, rows, pace, shown, evaluations=wanted, stop_after=seconds_left).go()
            stands.update((m.run.name, status) for m, status in zip(rows, ended, strict=True) if m in chosen)
            if "interrupted" in ended:
                stands.update((member.run.name, "interrupted") for member in left)
                break
        finished, interrupted, diverged = (
            [name for name, status in stands.items() if status == wanted]
            for wanted in ("finished", "interrupted", "diverged")
        )
        failed = {member.run.name: member.failed for member in members if member.failed}
        return FleetResult(finished, interrupted, diverged, failed, refused)


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


def _enter(stack: ExitStack, runs: Sequence[Run], out: Path) -> tuple[list[Member], dict[str, str]]:
    members, refused = [], {}
    for run in runs:
        try:
            folder = stack.enter_context(RunFolder.open(out / run.name, run.identity(), details_of(run)))
            folder.require_sound()
            members.append(Member(run, folder))
        except HeadraceError as error:  # another process has it, or what is in it cannot be read
            refused[run.name] = str(error)
    return members, refused


def _together(members: Sequence[Member], tell: Callable[[str], None]) -> list[Member]:
    """The runs that go on from one step, brought back to it.

    A process that died while saving leaves some runs one checkpoint ahead of the others: they go back by it. A run
    that lost more than that, or that was begun later, does not hold the others back.
    """
    while True:
        steps = {member: _steps(member) for member in members}
        counts = Counter(step for found in steps.values() for step in found)
        step = max(counts, key=lambda step: (counts[step], step))
        chosen = [member for member in members if step in steps[member]]
        for member in chosen:
            if member.resumed_at != step:
                member.folder.go_back_to(step)
                member.resume()
        if all(member.resumed_at == step for member in chosen):
            break
    if ahead := [max(steps[member]) for member in chosen if max(steps[member]) > step]:
        tell(
            f"{len(ahead)} of {len(chosen)} runs go back to step {step:,}, where all of the fleet were saved "
            f"(the furthest was at {max(ahead):,})"
        )
    return chosen


def _steps(member: Member) -> set[int]:
    """Where a run can go on from without losing more than one checkpoint."""
    saved = member.folder.checkpoint_steps()
    return saved if len(saved) == KEPT_CHECKPOINTS else {0, *saved}


def _streams_of(runs: Sequence[Run]) -> Streams:
    agents, seeds, steps = [run.agent for run in runs], [run.seed for run in runs], runs[0].steps
    if runs[0].form == "host":
        import jax

        from headrace.engines.jax.host_fleet import HostFleet
        from headrace.training.pool import Pool

        pool = Pool([run.env for run in runs], spin=jax.default_backend() != "cpu")
        return HostFleet(agents, pool, seeds, steps)
    from headrace.engines.jax.fleet import Fleet

    return Fleet(agents, [run.env.compiled() for run in runs], seeds, steps)
