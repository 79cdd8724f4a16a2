"""Compiled programs that outlive a process."""

from __future__ import annotations

import os
from pathlib import Path


def reuse_compiled_programs() -> None:
    """Keeps compiled programs between processes, so that continuing a run does not compile it again."""
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "xla"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:  # nowhere to keep them: they are compiled anew each time, which only costs time
            return
        if not os.access(folder, os.W_OK):
            return
        jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
