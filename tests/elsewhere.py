"""The usual suite under conditions that stand for other machines, one after another; a line says how each went.

`python -m tests.elsewhere` tries all in about an hour on two cores, `--only sse4.2,one-core` some. A condition takes
the tests that it can make a difference to: other instructions those that compute, a read-only cache those that keep
something, another Python all. Further words go to pytest: `tests` is everything, `tests/envs -x` a part. What pytest
said is kept below `.venv/elsewhere`. The whole parity suite in a learner that sanitizers watch takes an hour:
`--only sanitized tests/engines/learner -m ''`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".venv" / "elsewhere"
PATIENCE = 90 * 60.0  # seconds for each condition
COMPUTING = ["tests/definition", "tests/engines", "tests/conformance", "tests/export", "tests/sweep/test_fleets.py"]
RUNNING = [
    "tests/training",
    "tests/sweep",
    "tests/runs",
    "tests/cli",
    "tests/bench",
]  # processes, signals, clocks, files
TELLING = [
    "tests/analysis",
    "tests/reproduce",
    *(f"tests/{path.name}" for path in sorted(Path(__file__).parent.glob("test_*.py"))),
]
COUNTED = ("passed", "failed", "errors", "skipped")


class Unavailable(Exception):
    """This machine cannot stand for such a one."""


@dataclass
class Place:
    """Where the suite runs: by which Python, with which words before it and which variables set."""

    python: str = sys.executable
    before: Sequence[str] = ()
    variables: dict[str, str] = field(default_factory=dict)
    tests: Sequence[str] = ()  # those that it can make a difference to, unless others are named; none: all


@contextmanager
def instructions(most: str) -> Iterator[Place]:
    """Programs of XLA have no instructions beyond these."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={most}".strip()
    yield Place(variables={"XLA_FLAGS": flags}, tests=COMPUTING)


@contextmanager
def generic() -> Iterator[Place]:
    """The learner takes the instructions that every x86-64 has."""
    yield Place(variables={"HEADRACE_LEARNER_VARIANT": ""}, tests=[*COMPUTING, "tests/training"])


@contextmanager
def sanitized() -> Iterator[Place]:
    """The learner's memory and arithmetic are watched, no array of it touching the next one."""
    if not shutil.which("gcc"):
        raise Unavailable("there is no gcc")
    wanted = [["gcc", f"-print-file-name={name}"] for name in ("libasan.so", "libstdc++.so.6")]  # XLA throws exceptions
    found = " ".join(subprocess.run(words, capture_output=True, text=True).stdout.strip() for words in wanted)
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "learner.so")
        subprocess.run(["make", "--silent", "sanitized", f"LIBRARY={library}"], cwd=ROOT, check=True)
        variables = {"HEADRACE_LEARNER": library, "LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0"}
        yield Place(variables=variables, tests=["tests/engines/learner"])


@contextmanager
def one_core() -> Iterator[Place]:
    if not shutil.which("taskset"):
        raise Unavailable("there is no taskset")
    yield Place(before=["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))], tests=RUNNING)


@contextmanager
def busy() -> Iterator[Place]:
    """Four processes beside it never rest."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield Place(tests=RUNNING)
    finally:
        for other in others:
            other.kill()
            other.wait()


@contextmanager
def empty_home() -> Iterator[Place]:
    """A home without a file, and nothing can be written where caches are kept. Even the superuser cannot write below a
    file, whereas a folder's mode does not keep him out."""
    with tempfile.TemporaryDirectory() as folder:
        (home := Path(folder) / "home").mkdir()
        (cache := Path(folder) / "cache").write_text("")
        variables = {"HOME": str(home), "XDG_CACHE_HOME": str(cache)}
        yield Place(variables=variables, tests=[*RUNNING, *TELLING, "tests/envs"])


@contextmanager
def c_locale() -> Iterator[Place]:
    yield Place(variables={"LANG": "C", "LC_ALL": "C", "LANGUAGE": ""}, tests=[*RUNNING, *TELLING])


@contextmanager
def python(version: str) -> Iterator[Place]:
    """Another Python, with everything installed for it; the first time that takes minutes."""
    folder = KEPT / f"python{version}"
    if not (folder / "ready").exists():
        _install(_found(version), folder)
    yield Place(str(folder / "bin" / "python"))


def _found(version: str) -> str:
    named = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")]
    managed = ["uv", "python", "find", version]
    if shutil.which("uv"):
        named.append(subprocess.run(managed, capture_output=True, text=True).stdout.strip())
    for candidate in map(str, filter(None, named)):
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
            return candidate
    raise Unavailable(f"there is no Python {version}")


def _install(found: str, folder: Path) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [
        [found, "-m", "venv", "--clear", str(folder)],
        [*pip, "-r", "requirements.lock"],
        [*pip, "--no-deps", "-e", "."],
    ]
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"nothing could be installed: {(done.stderr.splitlines() or ['?'])[-1]}")
    (folder / "ready").touch()


CONDITIONS: dict[str, Callable[[], AbstractContextManager[Place]]] = {
    "sse4.2": lambda: instructions("SSE4_2"),
    "avx2": lambda: instructions("AVX2"),
    "generic": generic,
    "sanitized": sanitized,
    "one-core": one_core,
    "busy": busy,
    "empty-home": empty_home,
    "c-locale": c_locale,
    "python3.12": lambda: python("3.12"),
    "python3.13": lambda: python("3.13"),
}


def tried(name: str, place: Place, words: Sequence[str]) -> tuple[bool, str]:
    """Whether the suite passed there, and how it went in a line."""
    log, began = KEPT / f"{name}.txt", time.monotonic()
    usual = ["-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]
    command = [*place.before, place.python, "-m", "pytest", *usual, *(words or place.tests)]
    with log.open("w") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **place.variables}, stdout=said, stderr=said, start_new_session=True
        )
        try:
            status = process.wait(PATIENCE)
        except BaseException as stopped:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()
            if not isinstance(stopped, subprocess.TimeoutExpired):
                raise
            status = -1
    seconds, last = time.monotonic() - began, (log.read_text(errors="replace").splitlines() or [""])[-1]
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|skipped|error)s?\b", last)}
    counts["errors"] = counts.pop("error", 0)
    told = ", ".join(f"{counts.get(what, 0):,} {what}" for what in COUNTED)
    how = told if status >= 0 else f"not done after {PATIENCE / 60:.0f} min"
    where = "" if status == 0 else f"  ({log.relative_to(ROOT)})"
    return status == 0, f"{how} in {seconds // 60:.0f}:{seconds % 60:02.0f}{where}"


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--only", default="", help=f"some of {','.join(CONDITIONS)}")
    said, more = words.parse_known_args()
    chosen = [name for name in re.split(r"[,\s]+", said.only) if name] or list(CONDITIONS)
    if unknown := set(chosen) - set(CONDITIONS):
        words.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(CONDITIONS)}")
    KEPT.mkdir(parents=True, exist_ok=True)
    good = True
    for name in chosen:
        try:
            with CONDITIONS[name]() as place:
                passed, how = tried(name, place, more)
        except Unavailable as why:
            passed, how = True, f"skipped: {why}"
        print(f"{name:11} {how}", flush=True)
        good = good and passed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
