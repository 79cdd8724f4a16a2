"""A user's own environment: an object, a function that makes one, or the import path of such a function."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from headrace.envs.base import EnvSpec, HostEnv, TimeStep
from headrace.envs.gym import GymRules
from headrace.errors import BadSetting, HeadraceError
from headrace.part import at_path


class Given:
    """An environment with `spec`, `reset` and `step`; saved and drawn where it can be."""

    def __init__(self, env: Any, name: str) -> None:
        self._env, self.spec = env, env.spec
        self._name = name

    def reset(self, seed: int) -> np.ndarray:
        return self._env.reset(seed)

    def step(self, action: int) -> TimeStep:
        return self._env.step(action)

    def save(self) -> dict[str, Any] | None:
        return self._env.save() if hasattr(self._env, "save") else None

    def restore(self, saved: dict[str, Any]) -> None:
        self._env.restore(saved)

    def render(self) -> np.ndarray:
        if not hasattr(self._env, "render"):
            raise HeadraceError(f"{self._name} cannot be drawn: it has no method render()")
        return self._env.render()


def host_env(given: Any, name: str, rules: Any) -> HostEnv:
    """What was given, or what it makes when called, as a host environment of that name."""
    if isinstance(getattr(given, "spec", None), EnvSpec) and hasattr(given, "reset") and hasattr(given, "step"):
        if rules != GymRules():
            raise BadSetting(f"{name} is no Gymnasium environment: {rules!r} cannot be set of it")
        return Given(given, name)
    if hasattr(given, "observation_space") and hasattr(given, "action_space"):
        from headrace.envs.gym.env import GymEnv

        return GymEnv(name, rules, given)
    if callable(given):
        try:
            made = given(**rules.kwargs.settings())
        except TypeError as error:
            raise HeadraceError(f"{name} cannot be made: {error}") from error
        if not callable(made) or hasattr(made, "step"):
            return host_env(made, name, GymRules(rules.frames, wrappers=rules.wrappers))
    raise BadSetting(
        "an environment is a name, a Gymnasium environment, a function that makes one, or an object with spec, reset "
        f"and step as in headrace.envs.base.HostEnv; {name} is {given!r:.80}"
    )


def label_of(given: Any) -> str:
    """What an environment is called in names of runs; the import path of a function that has one."""
    module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", "")
    if name and module != "__main__" and getattr(sys.modules.get(module), name, None) is given:
        return f"{module}.{name}"
    spec = getattr(given, "spec", None)  # of headrace, or of Gymnasium
    said = getattr(spec, "name", "") if isinstance(spec, EnvSpec) else getattr(spec, "id", "")
    return (said.replace(".", "-") or name or type(given).__name__).rpartition(".")[2].strip("<>")


def is_path(name: str) -> bool:
    """Whether a name says by itself how the environment is made."""
    return "." in name


def from_path(path: str, rules: GymRules) -> HostEnv:
    """What the function at an import path makes."""
    if not is_path(path):
        raise HeadraceError(
            f"own/{path} was an object of the program that trained with it: give it again, as in "
            "headrace.train(..., env) and headrace.evaluate(..., env=env)"
        )
    if (found := at_path(path)) is None:
        raise HeadraceError(f"own/{path} cannot be made: there is nothing at {path}")
    return host_env(found, f"own/{path}", rules)
