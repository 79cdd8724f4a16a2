"""Options of Slurm as a user writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from headrace.errors import BadSetting
from headrace.sweep.executor import SlurmOptions

OURS = ("array", "cpus-per-task", "error", "mem", "ntasks", "output", "partition", "requeue", "signal", "time")


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
