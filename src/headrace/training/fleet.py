"""Training many runs in one compiled program. Each stream writes its own ordinary run folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from headrace.engines.base import Streams
from headrace.errors import BadSetting, HeadraceError
from headrace.runs.folder import RunFolder
from headrace.training.driver import Driver
from headrace.training.member import Member, details_of
from headrace.training.pace import LOG_EVERY, Pace
from headrace.training.periodic import evaluations
from headrace.training.progress import Progress, Silent
from headrace.training.run import Run, seconds, whole


class FleetResult(NamedTuple):
    """How the runs of a fleet stand, by name."""

    finished: list[str]
    interrupted: list[str]
    diverged: list[str]
    failed: dict[str, str]  # runs whose environment failed while others went on, and why
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

    `stop_after` (seconds) ends the call early, with everything saved. A run that diverged before keeps its place in
    the program, unwritten: the numbers of a batched product depend on the size of the batch in the last bit. So does a
    run whose environment has failed, which alone goes on once the others are finished.
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
        if any(member.live for member in rows):
            streams = _streams_of([member.run for member in rows])
            pace = Pace(every, checkpoint_seconds)
            driver = Driver(streams, rows, pace, progress or Silent(), evaluations=wanted, stop_after=stop_after)
            ended = driver.go()
            stands.update(zip((member.run.name for member in rows), ended, strict=True))
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
