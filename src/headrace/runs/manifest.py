"""Who made a run: its identity, and the program and machine that trained it.

A manifest may have been damaged, or written by anybody: `load` is the one place that reads it. What it returns has the
types and ranges of `FIELDS` and `IDENTITY`, so nothing behind it has to ask again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import HeadraceError
from headrace.runs import packs, strict_json
from headrace.runs.snapshots import PARAMS

FORMAT = 1
FILE = "manifest.json"
STATUSES = ("running", "finished", "interrupted", "diverged", "failed")
RESERVED = {"format", "identity", "status", "start", "end", "resumed"}
LONGEST_IDENTITY = 20_000  # characters: an agent of many parts has 2,000
LONGEST_TEXT = 500  # of a name, a time, a digest
SHOWN_WORDS = 2_000  # characters of somebody else's error message

Manifest = dict[str, Any]
REQUIRED = ("identity", "status")


class Kind(NamedTuple):
    """What a field may hold, in words and as a test."""

    words: str
    fits: Callable[[Any], bool]


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**53


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_words(value: Any) -> bool:
    """Text of any length, as of somebody else's error message."""
    return isinstance(value, str)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def _holds(value: Any, **tests: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(name in value and fits(value[name]) for name, fits in tests.items())


def _all_hold(value: Any, **tests: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(_holds(one, **tests) for one in value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


TEXT = Kind(f"text of at most {LONGEST_TEXT} letters", _is_text)
TEXT_OR_NOTHING = Kind(f"text of at most {LONGEST_TEXT} letters, or null", lambda v: v is None or _is_text(v))
COUNT = Kind("a whole number from 0", _is_count)
POSITIVE = Kind("a whole number from 1", lambda v: _is_count(v, 1))
AMOUNT = Kind("a number from 0 to 1e12", _is_amount)

IDENTITY = {
    "agent": Kind("an agent's parts", _is_mapping),
    "env": Kind("a name, rules and a form", lambda v: _holds(v, name=_is_text, rules=_is_mapping, form=_is_text)),
    "seed": COUNT,
    "steps": POSITIVE,
    "engine": TEXT,
    "numerics": COUNT,
}
FIELDS = {
    "identity": Kind(f"a mapping of at most {LONGEST_IDENTITY:,} letters", _is_mapping),
    "status": Kind(f"one of {', '.join(STATUSES)}", lambda v: isinstance(v, str) and v in STATUSES),
    "start": TEXT,
    "end": TEXT_OR_NOTHING,
    "resumed": Kind("a list of steps with their times", lambda v: _all_hold(v, step=_is_count)),
    "agent": TEXT,
    "machine": Kind(
        "names with numbers or text",
        lambda v: isinstance(v, dict) and all(x is None or _is_text(x) or _is_amount(x) for x in v.values()),
    ),
    "commit": TEXT_OR_NOTHING,
    "digest": TEXT_OR_NOTHING,
    "seconds": AMOUNT,
    "streams": POSITIVE,
    "parameters": COUNT,
    "peak_memory_mb": AMOUNT,
    "cause": Kind("text", _is_words),
    "diverged": Kind("a quantity and a step", lambda v: _holds(v, quantity=_is_text, step=_is_count)),
    "exact": Kind("true or false", lambda v: isinstance(v, bool)),
    "breaks": Kind("a list of steps, each with a reason", lambda v: _all_hold(v, step=_is_count, why=_is_words)),
    "tables": Kind(
        "the length and the checksum of each table",
        lambda v: isinstance(v, dict) and all(_holds(one, bytes=_is_count, sha256=_is_text) for one in v.values()),
    ),
}


def new_manifest(identity: Mapping[str, Any], details: Mapping[str, Any]) -> Manifest:
    facts = {"format": FORMAT, "identity": dict(identity), "status": "running", "start": now(), "end": None}
    return {**facts, "resumed": [], **checked(details)}


def plain(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details as they read once they have been through JSON."""
    return json.loads(json.dumps(dict(details)))


def checked(details: Mapping[str, Any]) -> Mapping[str, Any]:
    if taken := RESERVED & set(details):
        raise ValueError(f"details cannot set {sorted(taken)}: the run's folder sets them")
    return details


def encode(manifest: Manifest) -> bytes:
    return (json.dumps(manifest, indent=2) + "\n").encode()


def load(folder: Path) -> Manifest:
    """The manifest of a run's folder; HeadraceError says what is wrong with one that cannot be read."""
    try:
        return decode(packs.read(folder, FILE))
    except OSError as error:
        raise HeadraceError(f"cannot read {folder / FILE}: {error.strerror}") from error
    except ValueError as error:
        raise HeadraceError(f"{folder / FILE} is not a run's manifest: {error}") from error


def decode(data: bytes) -> Manifest:
    """The manifest in these bytes, every known field of its type; ValueError says which is not."""
    facts = strict_json.loads(data)
    if not isinstance(facts, dict) or "format" not in facts:
        raise ValueError("it has no format")
    if facts["format"] != FORMAT:
        raise ValueError(f"it has format {_brief(facts['format'])}, this version of headrace reads {FORMAT}")
    for name in REQUIRED:
        if name not in facts:
            raise ValueError(f"it lacks {name}")
    _require_kinds(facts, FIELDS)
    _require_kinds(facts["identity"], IDENTITY, "identity.")
    if len(_canonical(facts["identity"])) > LONGEST_IDENTITY:
        raise ValueError(f"identity must be {FIELDS['identity'].words}")
    return facts


def _require_kinds(facts: Mapping[str, Any], kinds: Mapping[str, Kind], above: str = "") -> None:
    for name, kind in kinds.items():
        if name in facts and not kind.fits(facts[name]):
            raise ValueError(f"{above}{name} must be {kind.words}, got {_brief(facts[name])}")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def require_run(identity: Mapping[str, Any]) -> None:
    """ValueError where an identity lacks what tells a run from others."""
    if missing := [name for name in IDENTITY if name not in identity and name not in ("engine", "numerics")]:
        raise ValueError(f"its identity lacks {' and '.join(missing)}")


def why_ended(facts: Mapping[str, Any]) -> str:
    """Why a run ended early; empty where it did not, or does not say."""
    where = facts.get("diverged")
    if facts["status"] == "diverged" and where:
        return f"{where['quantity']} was no longer finite at step {where['step']:,}"
    return facts.get("cause", "")[:SHOWN_WORDS]


def why_not_exact(facts: Mapping[str, Any]) -> str:
    """Why a run is not what it would be had it never stopped; empty where it is."""
    if facts.get("exact", True):
        return ""
    if not facts.get("breaks"):
        return "a new episode was begun where it was continued"
    *before, last = facts["breaks"]
    earlier = f" (so it was at {len(before)} earlier step{'s' * (len(before) > 1)})" if before else ""
    return f"{last['why'][:SHOWN_WORDS]}, and a new episode was begun after step {last['step']}{earlier}"


def identity_hash(identity: Mapping[str, Any]) -> str:
    """SHA-256 of a run's identity, whatever the order of its fields."""
    return hashlib.sha256(_canonical(identity).encode()).hexdigest()


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """One line for each field in which two identities differ, nested fields by their dotted names."""
    ours, theirs = dict(_leaves(wanted)), dict(_leaves(found))
    names = sorted(set(ours) | set(theirs))
    pairs = [(name, ours.get(name, "nothing"), theirs.get(name, "nothing")) for name in names]
    return [f"{name}: the folder has {there}, this run has {here}" for name, here, there in pairs if here != there]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key in value:
            yield from _leaves(value[key], f"{name}.{key}" if name else str(key))
    else:
        yield name, _canonical(value)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine_facts() -> dict[str, Any]:
    """The versions and the machine that a result may depend on; imports none of the packages it names."""
    return {
        "headrace": _version("headrace"),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "jax": _version("jax"),
        "jaxlib": _version("jaxlib"),
        "scipy": _version("scipy"),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), platform.processor() or platform.machine())


def commit(source: Path = Path(__file__).parent) -> str | None:
    """The git commit of the source tree, with "-dirty" where it was changed since; None where it is no checkout."""
    try:
        # A package installed below somebody's own repository is not tracked by it, and not that repository's commit.
        if not _git(source, "ls-files", "--", str(source)):
            return None
        changed = _git(source, "status", "--porcelain", "--", str(source))
        return _git(source, "rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(source: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    command = ["git", "-C", str(source), *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=5)
    return done.stdout.strip()


def footprint(arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Facts for a manifest. The memory is the process's: all streams of a fleet share it."""
    parameters = sum(np.asarray(array).size for name, array in arrays.items() if name.startswith(PARAMS))
    memory = peak_memory_mb()
    return {"parameters": parameters, **({"peak_memory_mb": memory} if memory else {})}


def peak_memory_mb() -> float:
    """The most memory that this process has held, in MB; 0 where the system does not tell."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # not a Unix
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in
    return round(getrusage(RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)
