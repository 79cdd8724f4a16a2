"""Many runs: plans, where they are trained, and how they stand."""

from importlib import import_module
from typing import Any

_HOME = {
    "grid": "headrace.sweep.plan",
    "read_plan": "headrace.sweep.plan",
    "standings": "headrace.sweep.status",
    "sweep": "headrace.sweep.driver",
}

__all__ = ["grid", "read_plan", "standings", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headrace.sweep' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
