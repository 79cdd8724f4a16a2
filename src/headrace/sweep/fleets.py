"""In fleets: runs of one structure in one compiled program, on an accelerator if there is one, else on the CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise
from pathlib import Path

from headrace.errors import BadSetting
from headrace.sweep.executor import Job, Options, program_of
from headrace.sweep.local import available_cores
from headrace.sweep.workers import Workers
from headrace.training.run import Run


class Fleets(Workers):
    """Each fleet in a process of its own: one at a time, or `jobs` at once, each with its share of the cores."""

    does = "together"

    def __init__(self, out: Path, options: Options) -> None:
        at_once = options.jobs or 1
        shared = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / at_once:.2f}"} if at_once > 1 else {}
        super().__init__(out, options, _shares(at_once), shared)

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """Fleets of nearly equal size, cut from the whole plan: a restarted sweep has the same fleets."""
        groups: dict[Hashable, list[Run]] = defaultdict(list)
        for run in runs:
            _require_reference(run)
            groups[_kind(run)].append(run)
        return [Job(tuple(part)) for group in groups.values() for part in _cut(group, self.options.streams)]

    def program(self, job: Job) -> Hashable:
        return _kind(job.runs[0]), len(job.runs)


def _shares(fleets: int) -> list[str | None]:
    """The cores of each fleet; None where they need not, or cannot, be shared out."""
    cores = [str(core) for core in available_cores()]
    if not 1 < fleets <= len(cores):
        return [None] * fleets
    return [",".join(cores[i::fleets]) for i in range(fleets)]


def _require_reference(run: Run) -> None:
    if run.engine != "reference":
        raise BadSetting(
            f"--on fleet has the reference engine, {run.name} has engine {run.engine}: leave out --engine and --form, "
            "or choose --on local"
        )


def _kind(run: Run) -> Hashable:
    """Equal for runs that can share a fleet: agents of one structure, equal steps, games of one suite in one form.
    Frames of Gymnasium's environments differ in shape, so each environment has a fleet of its own."""
    structure, *_ = program_of(run)
    suite = run.env.name.partition("/")[0]
    return structure, run.steps, run.env.name if suite == "gym" else suite, run.env.rules, run.form


def _cut(runs: Sequence[Run], most: int) -> list[Sequence[Run]]:
    count = -(-len(runs) // most)
    bounds = [round(i * len(runs) / count) for i in range(count + 1)]
    return [runs[start:end] for start, end in pairwise(bounds)]
