"""What the tests of exports share: small runs, and the C compiler of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.engines.learner import block
from headrace.learner import OVERRIDE, SOURCES, library, library_path

STRICT = ("-std=c11", "-Wall", "-Werror")
SIMPLE = ("-O0", "-ffp-contract=off")
QUICK = ("VARIANT=", f"CFLAGS={' '.join(SIMPLE)}")  # compiles in a second; vectors of the narrowest kind
NARROW = ("library.c", "learner.c")
WIDE = (*NARROW, "learner_avx2.c", "learner_avx512.c")


def compiled(*words: str | Path) -> None:
    """Runs the C compiler."""
    done = subprocess.run(["cc", *STRICT, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "CC", "CFLAGS")}
    done = subprocess.run(["make", "-C", folder, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done


@contextmanager
def learner_built(path: Path, flags: tuple[str, ...] = SIMPLE, sources: tuple[str, ...] = NARROW) -> Iterator[None]:
    """Within, headrace's learner is one of this machine's `cc`: usually as `make` with QUICK builds an exported one."""
    compiled(
        *flags, "-shared", "-fPIC", "-o", path, *(SOURCES / name for name in sources), *SOURCES.glob("games/*.c"), "-lm"
    )
    cached = (library_path, library, block.functions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OVERRIDE, str(path))
        if sources == NARROW:
            patch.setenv(block.VARIANT, "")
        for function in cached:
            function.cache_clear()
        yield
    for function in cached:
        function.cache_clear()
