"""How functions of this engine are compiled, and where compiled code is kept.

Compiled code is kept in a folder named by everything it depends on, so that it is never out of date: numba itself looks
at one file only. Where no folder can be written, code is compiled anew at every start.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba import njit

ANY_ORDER = {"contract", "reassoc", "nsz"}  # sums in any order; infinities and NaN are kept
# Only compiled code may call what is not an entry: it lacks what Python would call it by, which takes long to compile.
INSIDE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def ordered(function: Callable[..., Any]) -> Any:
    """Compiled so that every sum is taken in the order written."""
    return njit(**INSIDE, fastmath={"contract"})(function)


def exact(function: Callable[..., Any]) -> Any:
    """Compiled with every operation rounded as written: for arithmetic that counts on rounding errors."""
    return njit(**INSIDE)(function)


def summing(function: Callable[..., Any]) -> Any:
    """Compiled so that long sums may be taken in several lanes at once."""
    return njit(**INSIDE, fastmath=ANY_ORDER)(function)


def entry(function: Callable[..., Any]) -> Any:
    """Compiled for Python to call, when it is first called, and kept on disk."""
    with _keeping_in(cache_folder()) as kept:
        return njit(nogil=True, error_model="numpy", fastmath={"contract"}, cache=kept)(function)


@contextmanager
def _keeping_in(folder: Path | None) -> Iterator[bool]:
    """Functions decorated within are kept in the folder, if there is one."""
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder) if folder else before
    try:
        yield folder is not None
    finally:
        config.CACHE_DIR = before


@cache
def cache_folder() -> Path | None:
    """Where this program's compiled code is kept on this machine; none where nothing can be written."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "headrace" / f"fast-{_fingerprint()}"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):
        return None
    return folder


def _fingerprint() -> str:
    """Of the source, the compiler and the processor; and of where and when the source was put in place, which numba
    looks at too: what it would not take from the folder is better compiled in a process of its own."""
    here = Path(__file__).parent
    found = hashlib.sha256()
    beside = [here / name for name in ("machine.py", "native.py", "lanes.py", "tiles.py", "compiling.py")]
    for path in sorted([*here.glob("kernels/*.py"), *beside]):
        found.update(path.read_bytes())
    facts = (sys.version, numba.__version__, llvmlite.__version__, binding.get_host_cpu_name())
    features = binding.get_host_cpu_features().flatten()
    found.update(repr((*facts, features, str(here), (here / "machine.py").stat().st_mtime_ns)).encode())
    return found.hexdigest()[:16]
