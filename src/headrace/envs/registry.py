"""Every environment by name, with its rules and the forms in which it can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from headrace.envs.base import CompiledEnv, HostEnv
from headrace.envs.minatar import GAMES
from headrace.errors import BadSetting, HeadraceError, unknown
from headrace.part import Part, differences, to_json, within

FORMS = ("compiled", "host")


@dataclass(frozen=True)
class MinAtarRules(Part):
    """What may be changed about a MinAtar game."""

    sticky: float = within(0.1, 0.0, 1.0)  # probability that the last action is repeated
    ramping: int = within(1, 0, 1)  # whether the game grows harder


@dataclass(frozen=True)
class Family:
    """Environments that share rules and come in the same forms."""

    members: tuple[str, ...]
    rules: Part
    compiled: Callable[[str, Any], CompiledEnv]
    host: Callable[[str, Any], HostEnv]
    host_package: str
    about: str


def _compiled_minatar(game: str, rules: MinAtarRules) -> CompiledEnv:
    from headrace.envs.minatar.game import CompiledMinAtar

    return CompiledMinAtar(game, rules.sticky, bool(rules.ramping))


def _package_minatar(game: str, rules: MinAtarRules) -> HostEnv:
    from headrace.envs.minatar.package import PackageMinAtar

    return PackageMinAtar(game, rules.sticky, bool(rules.ramping))


FAMILIES: dict[str, Family] = {
    "minatar": Family(
        members=GAMES,
        rules=MinAtarRules(),
        compiled=_compiled_minatar,
        host=_package_minatar,
        host_package="minatar",
        about="MinAtar: compiled (written in JAX) or host (the minatar package)",
    ),
}


@dataclass(frozen=True)
class Environment:
    """An environment as a value: its name and its rules."""

    name: str
    rules: Part

    @property
    def _place(self) -> tuple[Family, str]:
        family, _, member = self.name.partition("/")
        return FAMILIES[family], member

    @property
    def label(self) -> str:
        """The name, and the rules that are not the usual ones."""
        return " ".join([self.name, *differences(self.rules, self._place[0].rules)])

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "rules": to_json(self.rules)}

    def compiled(self) -> CompiledEnv:
        """The environment as pure JAX functions: one object for equal values, so that its programs compile once."""
        family, member = self._place
        return _shared(family.compiled, member, self.rules)

    def host(self) -> HostEnv:
        """The environment as Python steps it: the original package."""
        family, member = self._place
        if find_spec(family.host_package) is None:
            raise HeadraceError(
                f"{self.name} on the host needs the {family.host_package} package: "
                f"pip install 'headrace[{family.host_package}]' (or use the compiled form)"
            )
        return family.host(member, self.rules)


@cache
def _shared(compiled: Callable[[str, Any], CompiledEnv], member: str, rules: Part) -> CompiledEnv:
    return compiled(member, rules)


def names() -> list[str]:
    return [f"{family}/{member}" for family, found in FAMILIES.items() for member in found.members]


def environment(name: str) -> Environment:
    """The environment of that name with its usual rules."""
    if name not in names():
        raise unknown("environment", name, names())
    return Environment(name, FAMILIES[name.partition("/")[0]].rules)


def make(name: str, form: str = "host") -> Any:
    """An environment ready to use: `host` is stepped from Python, `compiled` is pure JAX functions."""
    if form not in FORMS:
        raise BadSetting(f"an environment's form is {' or '.join(FORMS)}, got {form!r}")
    found = environment(name)
    return found.compiled() if form == "compiled" else found.host()


@cache
def _programs() -> tuple[Callable[..., Any], ...]:
    """Making a key, starting and stepping; the latter two are compiled once for each environment."""
    import jax

    def init(env: CompiledEnv, key: Any) -> Any:
        return env.init(key)

    def step(env: CompiledEnv, state: Any, action: Any, key: Any, count: Any) -> Any:
        return env.step(state, action, jax.random.fold_in(key, count))

    return jax.random.key, jax.jit(init, static_argnums=0), jax.jit(step, static_argnums=0)


class Hosted:
    """A compiled environment stepped from Python, one step at a time."""

    def __init__(self, env: CompiledEnv) -> None:
        self._env, self.spec = env, env.spec
        self._make_key, self._init, self._step = _programs()

    def reset(self, seed: int) -> np.ndarray:
        self._key, self._taken = self._make_key(seed), 0
        self._state, obs = self._init(self._env, self._key)
        return np.asarray(obs)

    def step(self, action: int) -> Any:
        self._taken += 1
        self._state, timestep = self._step(self._env, self._state, np.int32(action), self._key, self._taken)
        return type(timestep)(*(np.asarray(x) for x in timestep))

    def render(self) -> np.ndarray:
        return self._env.render(self._state)
