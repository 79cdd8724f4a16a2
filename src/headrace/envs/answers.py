"""Checks what an environment returned, and makes float32 arrays of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import EnvironmentFault

LARGEST = 1e12  # in size; the squares of greater numbers, summed over a run, would leave float32


def numbers(value: Any, what: str, shape: tuple[int, ...], env: str, step: int) -> np.ndarray:
    """The value as float32 of that shape, not too large to be scaled; the rest is for the error."""
    try:
        array = np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise _fault(what, env, step, f"is no array of numbers ({error})") from error
    if array.shape != shape:
        raise _fault(what, env, step, f"has shape {array.shape}, not {shape}")
    if not (usable := np.abs(array) <= LARGEST).all():
        strange = array[~usable].flat[0]
        limit = f" (no number may be beyond {LARGEST:g})" if np.isfinite(strange) else ""
        raise _fault(what, env, step, f"has {strange:g} in it{limit}")
    return array


def _fault(what: str, env: str, step: int, why: str) -> EnvironmentFault:
    return EnvironmentFault(f"the {what} that {env} gave at step {step:,} {why}: nothing can be learnt from it")
