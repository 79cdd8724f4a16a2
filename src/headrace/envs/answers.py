"""What an environment gives, as arrays of numbers that can be learnt from, or an error that says what was wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import EnvironmentFault


def numbers(value: Any, what: str, shape: tuple[int, ...], env: str, step: int) -> np.ndarray:
    """The value as finite float32 of that shape; `what` it is, whose and of which step is for the error."""
    try:
        array = np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise _fault(what, env, step, f"is no array of numbers ({error})") from error
    if array.shape != shape:
        raise _fault(what, env, step, f"has shape {array.shape}, not {shape}")
    if not np.isfinite(array).all():
        raise _fault(what, env, step, f"has {array[~np.isfinite(array)].flat[0]} in it")
    return array


def _fault(what: str, env: str, step: int, why: str) -> EnvironmentFault:
    return EnvironmentFault(f"the {what} that {env} gave at step {step:,} {why}: nothing can be learnt from it")
