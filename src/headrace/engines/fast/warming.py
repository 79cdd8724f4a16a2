"""Compiling in a process of its own: the one that trains then never holds the compiler's memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cache

import numpy as np

from headrace.engines.fast.compiling import cache_folder
from headrace.engines.fast.machine import WIDTH, ask, await_answer, carry_out, fill_uniform, hashed, write_out
from headrace.engines.fast.memory import Memory

MARK = "complete"  # a file beside compiled code that says that all of it is there
ONCE = "compiling the fast engine, once for this machine: about a minute ..."
EACH_TIME = "compiling the fast engine, about a minute: NUMBA_CACHE_DIR may name a folder where it can be kept ..."


def compile_beforehand() -> None:
    """Makes sure that compiled code is on disk. Where it cannot be kept there, this process compiles when it must."""
    folder = cache_folder()
    if folder is None:
        _tell(EACH_TIME)
    elif not (folder / MARK).exists():
        _tell(ONCE)
        done = subprocess.run([sys.executable, "-m", __name__], check=False, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            (folder / MARK).touch()


@cache
def _tell(what: str) -> None:
    """Says it to a person at a terminal, who would wonder about the silence; once, as a process compiles once."""
    if sys.stderr.isatty():
        print(f"headrace: {what}", file=sys.stderr, flush=True)


def compile_all() -> None:
    """Calls everything that Python calls, on nothing."""
    f, s, n = Memory().allocate()
    rows, flags = np.zeros((0, WIDTH), np.int64), np.zeros(2, np.int64)
    carry_out(rows, f, s, n, flags[:0])
    await_answer(flags)
    ask(flags, -1)
    fill_uniform(*hashed(0, 0, 0, 0), f)
    write_out(f, f, 0, np.float32(0), *[0] * 7)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # on Ctrl-C it ends without a word; who started it says what happened
    compile_all()
