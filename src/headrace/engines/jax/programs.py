"""Compiled programs that outlive a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
        settings["jax_compilation_cache_dir"] = str(folder)
    os.environ.update({name.upper(): value for name, value in settings.items()})
    if jax := sys.modules.get("jax"):
        for name, value in settings.items():
            jax.config.update(name, float(value) if name.endswith("_secs") else value)
