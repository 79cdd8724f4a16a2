"""Where the runs of a sweep are trained. A new place is one file with an `Executor`, and one line in EXECUTORS."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headrace.envs.gym import IMPORTS
from headrace.errors import unknown
from headrace.training.engine_choice import require_engine
from headrace.training.run import Run

EXECUTORS = {
    "local": "headrace.sweep.local:Local",
    "fleet": "headrace.sweep.fleets:Fleets",
    "ray": "headrace.sweep.ray_executor:Ray",
    "slurm": "headrace.sweep.slurm:Slurm",
}
LOCK = ".sweep.lock"  # in the folder of all runs: one sweep at a time
NOTES = ".sweep"  # beside it: what a sweep notes about jobs on other machines


class SlurmOptions(NamedTuple):
    """What Slurm is asked for, for each run."""

    partition: str | None = None  # the cluster's default
    minutes: int = 240  # of one stretch: at the limit a run is saved and queued again
    gigabytes: float = 2.0
    more: tuple[str, ...] = ()  # any other option of sbatch, NAME=VALUE


class Options(NamedTuple):
    """What a user may choose about the training of a plan; each place uses what it has a use for."""

    jobs: int | None = None  # processes at once
    streams: int = 256  # the most runs in one fleet
    checkpoint_every: int | None = None  # steps; by the clock where None
    address: str = ""  # of a Ray cluster; a new one on this machine where empty
    slurm: SlurmOptions = SlurmOptions()
    eval_every: int | None = None  # steps; no evaluations where None
    eval_episodes: int = 10
    callbacks: str = ""  # a module with on_step, on_episode or on_log; none where empty


class Job(NamedTuple):
    """Runs that are trained together."""

    runs: tuple[Run, ...]


class Began(NamedTuple):
    """A job that was added is being trained now."""

    job: Job


class Moved(NamedTuple):
    """All runs of a job have reached a step; each makes so many steps a second."""

    job: Job
    step: int
    rate: float


class Said(NamedTuple):
    """Something that a user should know."""

    text: str


class Ended(NamedTuple):
    """A job is over, one way or another; the folders of its runs tell the rest."""

    job: Job
    causes: Mapping[str, str]  # what went wrong with a run, by its name
    lost: str = ""  # how the job was taken from its place, where its runs had no part in that


Event = Began | Moved | Said | Ended


class Executor(Protocol):
    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """How a whole plan is divided; the same for the same plan, whatever is done already. Bad plans are errors."""

    def add(self, job: Job) -> None:
        """Trains the job's runs as soon as there is room. Exactly one `Ended` follows."""

    def wait(self, seconds: float) -> list[Event]:
        """What has happened; waits for something to happen, but no longer than that.

        A place that is gone for good is a HeadraceError.
        """

    def stop(self) -> None:
        """Asks every job to save and stop, and forgets those that have not begun; their `Ended` follow."""

    def close(self) -> None:
        """Nothing is running afterwards."""


def executor(name: str, out: Path, options: Options) -> Executor:
    if name not in EXECUTORS:
        raise unknown("place to run a sweep", name, EXECUTORS)
    module, _, kind = EXECUTORS[name].partition(":")
    return getattr(import_module(module), kind)(out, options)


def order(job: Job, out: Path, options: Options) -> dict[str, Any]:
    """A job as it travels to another process: runs by their identities, everything as JSON."""
    return {
        "runs": [run.identity() for run in job.runs],
        "out": str(out.absolute()),
        "checkpoint_every": options.checkpoint_every,
        "eval_every": options.eval_every,
        "eval_episodes": options.eval_episodes,
        "callbacks": options.callbacks,
        "imports": os.environ.get(IMPORTS, ""),
    }


def one_by_one(runs: Sequence[Run]) -> list[Job]:
    return [Job((run,)) for run in runs]


def program_of(run: Run) -> tuple[object, ...]:
    """Equal for two runs that one compiled program can train, its numbers and seed being arguments."""
    if run.engine != "reference":
        return (run.engine,)  # compiled for all agents
    require_engine(run.engine, run.notice)
    import jax

    from headrace.engines.jax.parts import register_parts

    register_parts()
    return jax.tree.structure(run.agent), run.env, run.engine, run.form
