"""The learner in C: its sources, and the library that installing the package compiled from them."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from headrace.errors import HeadraceError

SOURCES = Path(__file__).parent
NOT_COMPILED = "was not compiled: install a C compiler, then run pip install --force-reinstall --no-deps headrace"
OVERRIDE = "HEADRACE_LEARNER"  # names another build of the library, such as one with a sanitizer


@cache
def library_path() -> Path | None:
    """Where the compiled library lies; nothing where there is none."""
    if named := os.environ.get(OVERRIDE):
        return Path(named) if Path(named).exists() else None
    candidates = (SOURCES / f"_learner{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in candidates if path.exists()), None)


@cache
def library() -> ctypes.CDLL:
    """The compiled library."""
    path = library_path()
    if path is None:
        raise HeadraceError(f"the learner {NOT_COMPILED}")
    return ctypes.CDLL(str(path))
