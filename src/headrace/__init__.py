"""Streaming deep reinforcement learning with online representation learning."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` takes a while to load, and every command begins here
if TYPE_CHECKING:  # what `__getattr__` finds, for type checkers, editors and the reference
    from typing import Any

    from headrace.agents import Agent, agent_named as agent
    from headrace.envs.registry import make as make_env
    from headrace.errors import (
        BadSetting,
        CheckpointDamaged,
        Diverged,
        EnvironmentFault,
        HeadraceError,
        RunConflict,
        StorageFull,
        UnknownName,
    )
    from headrace.part import tweak
    from headrace.policy import Policy
    from headrace.runs.folder import RunFolder
    from headrace.training.engine import Engine, load
    from headrace.training.evaluation import evaluate, play
    from headrace.training.run import Run
    from headrace.training.single import train

# Names are looked up when first used: `import headrace` alone loads no framework.
_HOME = {
    "train": "headrace.training.single",
    "evaluate": "headrace.training.evaluation",
    "play": "headrace.training.evaluation",
    "load": "headrace.training.engine",
    "make_env": "headrace.envs.registry",
    "agent": "headrace.agents",
    "tweak": "headrace.part",
    "Agent": "headrace.agents",
    "Engine": "headrace.training.engine",
    "Policy": "headrace.policy",
    "Run": "headrace.training.run",
    "RunFolder": "headrace.runs.folder",
    **dict.fromkeys(
        (
            "BadSetting", "CheckpointDamaged", "Diverged", "EnvironmentFault", "HeadraceError", "RunConflict",
            "StorageFull", "UnknownName",
        ),
        "headrace.errors",
    ),
}  # fmt: skip
_ALIAS = {"make_env": "make", "agent": "agent_named"}

__all__ = (
    "Agent", "BadSetting", "CheckpointDamaged", "Diverged", "Engine", "EnvironmentFault", "HeadraceError", "Policy",
    "Run", "RunConflict", "RunFolder", "StorageFull", "UnknownName", "agent", "evaluate", "load", "make_env", "play",
    "train", "tweak",
)  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), _ALIAS.get(name, name))


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]
