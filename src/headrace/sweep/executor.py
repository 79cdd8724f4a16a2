"""Where the runs of a sweep are trained. A new executor is one file and one line in EXECUTORS."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headrace.envs.gym import IMPORTS
from headrace.errors import BadSetting, unknown
from headrace.training.run import Run, require_engine

EXECUTORS = {
    "local": "headrace.sweep.workers:Local",
    "fleet": "headrace.sweep.workers:Fleets",
    "ray": "headrace.sweep.ray_executor:Ray",
    "slurm": "headrace.sweep.slurm:Slurm",
}
OURS = ("array", "cpus-per-task", "error", "mem", "ntasks", "output", "partition", "requeue", "signal", "time")
LOCK = ".sweep.lock"  # in the folder of all runs: one sweep at a time
NOTES = ".sweep"  # beside it: what a sweep keeps about jobs on other machines


class SlurmOptions(NamedTuple):
    """The resources of each Slurm job."""

    partition: str | None = None  # the cluster's default
    minutes: int = 240  # of one stretch: at the limit a run is saved and queued again
    gigabytes: float = 2.0
    more: tuple[str, ...] = ()  # any other option of sbatch, NAME=VALUE


def slurm_options(
    partition: str | None = None, time: str | None = None, memory: float | None = None, sbatch: Sequence[str] = ()
) -> SlurmOptions:
    usual = SlurmOptions()
    return SlurmOptions(
        partition,
        usual.minutes if time is None else minutes(time),
        usual.gigabytes if memory is None else _gigabytes(memory),
        tuple(map(_checked, sbatch)),
    )


def minutes(text: str) -> int:
    """`90` are minutes, `1:30` hours and minutes, `1-12` and `1-12:30` days and hours."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::([0-5]?\d))?", text)
    if match is None:
        raise BadSetting(f"a time is minutes (90), hours (1:30) or days (1-12:30), got {text!r}")
    days, first, second = match.groups()
    hours = days is not None or second is not None
    found = int(days or 0) * 1440 + int(first) * (60 if hours else 1) + int(second or 0)
    if found < 2:
        raise BadSetting(f"a run needs at least two minutes at a time, got {text!r}")
    return found


def _gigabytes(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise BadSetting(f"memory is a number of gigabytes, got {value!r}")
    return float(value)


def _checked(option: str) -> str:
    name, equals, _ = option.partition("=")
    if not equals or not re.fullmatch(r"[a-z][a-z-]*", name):
        raise BadSetting(f"an option of sbatch is NAME=VALUE, such as account=lab, got {option!r}")
    if name in OURS:
        raise BadSetting(f"sbatch's {name} is chosen by the sweep: use --partition, --time, --memory and --jobs")
    return option


class Options(NamedTuple):
    """A user's options for training a plan; each executor uses those that concern it."""

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
    """A job has started."""

    job: Job


class Moved(NamedTuple):
    """All runs of a job have reached a step; each makes so many steps a second."""

    job: Job
    step: int
    rate: float


class Said(NamedTuple):
    """A notice for the user."""

    text: str


class Ended(NamedTuple):
    """A job is over; the folders of its runs say how they stand."""

    job: Job
    causes: Mapping[str, str]  # what went wrong with a run, by its name
    lost: str = ""  # why the job was lost, if not through its runs: its machine died, its time was up


Event = Began | Moved | Said | Ended


class Executor(Protocol):
    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """Divides a plan into jobs, the same whatever is finished already. Rejects plans it cannot train."""

    def add(self, job: Job) -> None:
        """Queues a job. Exactly one `Ended` follows."""

    def wait(self, seconds: float) -> list[Event]:
        """Returns what has happened, after so many seconds at most; HeadraceError if the executor is lost."""

    def stop(self) -> None:
        """Asks running jobs to save and stop, and drops queued ones; their `Ended` follow."""

    def close(self) -> None:
        """Frees all resources; nothing is running afterwards."""


def executor(name: str, out: Path, options: Options) -> Executor:
    if name not in EXECUTORS:
        raise unknown("place to run a sweep", name, EXECUTORS)
    module, _, kind = EXECUTORS[name].partition(":")
    return getattr(import_module(module), kind)(out, options)


def order(job: Job, out: Path, options: Options) -> dict[str, Any]:
    """A job as JSON, for another process: its runs by their identities, and the options."""
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
    """Equal for runs that one compiled program can train, with hyperparameters and seed as arguments."""
    if run.engine != "reference":
        return (run.engine,)  # compiled for all agents
    require_engine(run.engine, run.notice)
    import jax

    from headrace.engines.jax.arrays import register_parts

    register_parts()
    return jax.tree.structure(run.agent), run.env, run.engine, run.form
