"""The learner in C: its sources, and the library that installing the package compiled from them."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

SOURCES = Path(__file__).parent
OVERRIDE = "HEADRACE_LEARNER"  # names another build of the library, such as one with a sanitizer


def library_path() -> Path | None:
    """Where the compiled library lies; nothing where there is none."""
    if named := os.environ.get(OVERRIDE):
        return Path(named)
    candidates = (SOURCES / f"_learner{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in candidates if path.exists()), None)


@cache
def library() -> ctypes.CDLL:
    """The compiled library."""
    path = library_path()
    if path is None:
        raise FileNotFoundError("the learner was not compiled: install a C compiler, then headrace anew")
    return ctypes.CDLL(str(path))
