"""Compiled programs that outlive a process."""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

WORTH_KEEPING = 0.5  # seconds of compiling


def reuse_compiled_programs() -> None:
    """Keeps compiled programs between processes, so that continuing a run does not compile it again.

    JAX reads these settings when it is imported, so that a run without JAX need not import it here.
    """
    settings = {"jax_persistent_cache_min_compile_time_secs": str(WORTH_KEEPING)}
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "xla"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:  # nowhere to keep them: they are compiled anew each time, which only costs time
            return
        if not os.access(folder, os.W_OK):
            return
        _tell_once(folder)
        settings["jax_compilation_cache_dir"] = str(folder)
    os.environ.update({name.upper(): value for name, value in settings.items()})
    if jax := sys.modules.get("jax"):
        for name, value in settings.items():
            jax.config.update(name, float(value) if name.endswith("_secs") else value)


@cache
def _tell_once(folder: Path) -> None:
    """Makes one notice of JAX's warnings, one for each program, that it cannot read or write the folder's files."""
    show, said = warnings.showwarning, list[str]()

    def told(message: Any, *where: Any, **more: Any) -> None:
        if "persistent compilation cache" not in str(message):
            show(message, *where, **more)
        elif not said:
            said.append(str(message).rpartition(": ")[2])
            print(
                f"headrace: compiled programs cannot be kept in {folder} ({said[0]}), which only costs time; "
                "make room there, or remove the folder if it is damaged",
                file=sys.stderr,
            )

    warnings.showwarning = told
