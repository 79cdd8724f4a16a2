"""JSON as the standard has it: what is read holds no surprise, and what is written any reader can read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

LARGEST = 16 << 20  # bytes: more is none of ours
DEEPEST = 64  # levels of nesting
HUGE = 2**63  # whole numbers stay below it


def loads(data: bytes | str) -> Any:
    """The value; ValueError says what is wrong with it.

    No NaN, no number beyond floats or 64 bits, no nesting that exhausts a reader's stack. A lone surrogate, which no
    file and no page can hold, becomes a question mark.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it has {len(data):,} bytes, more than the {LARGEST:,} that are read")
    try:
        return _checked(json.loads(data, parse_constant=_refused), DEEPEST)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


_TOO_DEEP = f"it is nested more than {DEEPEST} deep"


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _checked(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number in it is too large")
    if isinstance(value, int) and abs(value) >= HUGE:
        raise ValueError("a whole number in it is too large")
    if isinstance(value, dict | list) and not levels:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, dict):
        return {_checked(key, levels): _checked(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_checked(item, levels - 1) for item in value]
    return value


def dumps(value: Any) -> str:
    """The value for a program to read; a number that is not finite is null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
