"""What a run needs of a machine: its parameters, and the most memory that its process has had."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np

from headrace.runs.snapshots import PARAMS


def footprint(arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Facts for a manifest. The memory is the process's: all streams of a fleet share it."""
    parameters = sum(np.asarray(array).size for name, array in arrays.items() if name.startswith(PARAMS))
    memory = peak_memory_mb()
    return {"parameters": parameters, **({"peak_memory_mb": memory} if memory else {})}


def peak_memory_mb() -> float:
    """The most memory that this process has held, in MB; 0 where the system does not tell."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # not a Unix
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in
    return round(getrusage(RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)
