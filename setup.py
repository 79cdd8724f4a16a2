"""Compiles the learner in C. Without a compiler the package installs all the same, and runs on the definition."""

import sys
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/headrace/learner")
FLAGS = "-std=c11 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -g0 -Wall -Wextra".split()  # noqa: SIM905
SOURCES = ("library.c", "learner.c", "learner_avx2.c", "learner_avx512.c")

setup(
    ext_modules=[
        Extension(
            "headrace.learner._learner",
            sources=[*(str(FOLDER / name) for name in SOURCES), *map(str, sorted(FOLDER.glob("games/*.c")))],
            depends=[str(path) for path in sorted(FOLDER.rglob("*.[ch]"))],
            extra_compile_args=[] if sys.platform == "win32" else FLAGS,
            libraries=[] if sys.platform == "win32" else ["m"],
            optional=True,
        )
    ]
)
