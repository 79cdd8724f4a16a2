"""Who made a run: its identity, and the program and machine that trained it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.runs import packs

FORMAT = 1
FILE = "manifest.json"
STATUSES = ("running", "finished", "interrupted", "diverged", "failed")
RESERVED = {"format", "identity", "status", "start", "end", "resumed"}

Manifest = dict[str, Any]


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
    """The manifest of a run's folder; HeadraceError if it is not one that this version can read."""
    path = folder / FILE
    try:
        manifest = json.loads(packs.read(folder, FILE))
        known = manifest["format"] == FORMAT and isinstance(manifest["identity"], dict)
    except (OSError, ValueError, KeyError, TypeError) as error:
        lacks = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise HeadraceError(f"{path} is not a run's manifest: {lacks}") from error
    if not known:
        raise HeadraceError(f"{path} has format {manifest['format']}, this version of headrace reads {FORMAT}")
    return manifest


def why_ended(facts: Mapping[str, Any]) -> str:
    """Why a run failed or diverged; empty where it did neither, or does not say."""
    where = facts.get("diverged")
    if facts["status"] == "diverged" and isinstance(where, dict):
        return f"{where['quantity']} was no longer finite at step {where['step']:,}"
    return str(facts.get("cause", "")) if facts["status"] == "failed" else ""


def why_not_exact(facts: Mapping[str, Any]) -> str:
    """Why a run is not what it would be had it never stopped; empty where it is."""
    if facts.get("exact", True):
        return ""
    told = facts.get("breaks")
    breaks = [b for b in told if isinstance(b, dict) and {"step", "why"} <= set(b)] if isinstance(told, list) else []
    if not breaks:
        return "a new episode was begun where it was continued"
    *before, last = breaks
    earlier = f" (so it was at {len(before)} earlier step{'s' * (len(before) > 1)})" if before else ""
    return f"{last['why']}, and a new episode was begun after step {last['step']}{earlier}"


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


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = cpuinfo.read_text().splitlines()
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
