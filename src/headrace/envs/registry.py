"""Every environment by name, with its rules and the forms in which it can run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from headrace.envs import atari, given, octax
from headrace.envs.base import CompiledEnv, EnvSpec, HostEnv
from headrace.envs.gym import GymRules
from headrace.envs.hosted import Hosted
from headrace.envs.minatar import ABOUT, GAMES
from headrace.envs.octax import OctaxRules
from headrace.envs.probe import PUZZLES, Probe, ProbeRules
from headrace.errors import LISTED_NAMES, NEAR, BadSetting, HeadraceError, UnknownName, unknown
from headrace.part import Part, differences, from_json, to_json, within

__all__ = ["FAMILIES", "FORMS", "SETS", "Environment", "Family", "Hosted", "environment", "make", "matching", "names"]

if TYPE_CHECKING:
    import gymnasium

FORMS = ("compiled", "host")


@dataclass(frozen=True)
class MinAtarRules(Part):
    """What may be changed about a MinAtar game."""

    sticky: float = within(0.1, 0.0, 1.0)  # probability that the last action is repeated
    ramping: int = within(1, 0, 1)  # whether the game grows harder


@dataclass(frozen=True)
class Form:
    """One way to run an environment: what makes it, the packages that it needs, and the extra that installs them."""

    make: Callable[[str, Any], Any]
    packages: tuple[str, ...] = ()
    extra: str = ""

    def missing(self) -> list[str]:
        return [name for name in self.packages if find_spec(name) is None]


@dataclass(frozen=True)
class Family:
    """Environments that share rules and come in the same forms, the usual form first."""

    members: tuple[str, ...]  # none where any name may be one
    rules: Part
    forms: Mapping[str, Form]
    about: str
    each: Mapping[str, str] = field(default_factory=dict)  # what some members are, in a line


def _compiled_minatar(game: str, rules: MinAtarRules) -> CompiledEnv:
    from headrace.envs.minatar.game import CompiledMinAtar

    return CompiledMinAtar(game, rules.sticky, bool(rules.ramping))


def _host_minatar(game: str, rules: MinAtarRules) -> HostEnv:
    from headrace.envs.minatar.host import HostMinAtar

    return HostMinAtar(game, rules.sticky, bool(rules.ramping))


def _atari(game: str, rules: atari.AtariRules) -> HostEnv:
    from headrace.envs.atari.game import AtariGame

    return AtariGame(game, rules)


def _compiled_octax(game: str, rules: OctaxRules) -> CompiledEnv:
    from headrace.envs.octax.game import CompiledOctax

    return CompiledOctax(game, rules)


def _probe(name: str, rules: ProbeRules) -> CompiledEnv:
    return Probe(name)


def _hosted(compiled: Callable[[str, Any], CompiledEnv]) -> Callable[[str, Any], HostEnv]:
    """The compiled form stepped from Python."""
    return lambda member, rules: Hosted(_shared(compiled, member, rules))


def _gymnasium(name: str, rules: GymRules) -> HostEnv:
    from headrace.envs.gym.env import GymEnv

    return GymEnv(f"gym/{name}", rules)


_JAX = ("jax",), "jax"
_OCTAX = ("octax", "cv2", "PIL"), "octax"

FAMILIES: dict[str, Family] = {
    "minatar": Family(
        members=GAMES,
        rules=MinAtarRules(),
        forms={"compiled": Form(_compiled_minatar, *_JAX), "host": Form(_host_minatar)},
        each=ABOUT,
        about="MinAtar: compiled (written in JAX) or host (written in C)",
    ),
    "atari": Family(
        members=atari.GAMES,
        rules=atari.AtariRules(),
        forms={"host": Form(_atari, ("ale_py",), "atari")},
        about="Atari 2600: the emulator of the ale-py package",
    ),
    "octax": Family(
        members=octax.GAMES,
        rules=OctaxRules(),
        forms={"compiled": Form(_compiled_octax, *_OCTAX), "host": Form(_hosted(_compiled_octax), *_OCTAX)},
        about="Octax: CHIP-8 games of the octax package, compiled or one step at a time",
    ),
    "probe": Family(
        members=tuple(PUZZLES),
        rules=ProbeRules(),
        forms={"compiled": Form(_probe, *_JAX), "host": Form(_hosted(_probe), *_JAX)},
        about="tiny environments whose values are known",
        each={name: puzzle.about for name, puzzle in PUZZLES.items()},
    ),
    "gym": Family(
        members=(),
        rules=GymRules(),
        forms={"host": Form(_gymnasium, ("gymnasium",), "gym")},
        about="any registered Gymnasium environment with discrete actions or boxes: gym/ID",
    ),
    "own": Family(
        members=(),
        rules=GymRules(),
        forms={"host": Form(given.from_path)},
        about="what a function of yours makes: own/my_package.my_function",
    ),
}

# Names for the paper's choices, to be used in patterns: `atari26/*` are 26 of the games of `atari/*`.
SETS: dict[str, tuple[str, ...]] = {
    "atari26": tuple(f"atari/{game}" for game in atari.PAPER_GAMES),
    "octax8": tuple(f"octax/{game}" for game in octax.PAPER_GAMES),
}


@dataclass(frozen=True)
class Environment:
    """An environment as a value: its name and its rules."""

    name: str
    rules: Part
    seen: tuple[Any, ...] = ()  # shape of observations and number of actions, where the name does not tell them
    given: Any = field(default=None, compare=False)  # the environment itself, or what makes it

    @property
    def _place(self) -> tuple[Family, str]:
        family, _, member = self.name.partition("/")
        return FAMILIES[family], member

    @property
    def label(self) -> str:
        """The name, and the rules that are not the usual ones."""
        return " ".join([self.name, *self.settings])

    @property
    def settings(self) -> list[str]:
        """The rules that are not the usual ones."""
        return differences(self.rules, self._place[0].rules)

    @property
    def about(self) -> str:
        """What the environment is, in a line: of its own where there is one, else its family's."""
        family, member = self._place
        return family.each.get(member, family.about)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that it comes in, the usual one first."""
        return tuple(self._place[0].forms)

    @property
    def at_hand(self) -> bool:
        """Whether it needs nothing of others but JAX, which is here: then it takes no time to look at it."""
        return any(set(form.packages) <= {"jax"} for form in self._ready)

    @property
    def install(self) -> str:
        """What has to be installed before it can be used; empty where nothing has."""
        return "" if self._ready else f"headrace[{self._place[0].forms[self.forms[0]].extra}]"

    @property
    def _ready(self) -> list[Form]:
        """The forms whose packages are here."""
        return [form for form in self._place[0].forms.values() if not form.missing()]

    def identity(self) -> dict[str, Any]:
        seen = {"seen": list(self.seen)} if self.seen else {}
        return {"name": self.name, "rules": to_json(self.rules), **seen}

    def spec(self) -> EnvSpec:
        """What an agent must know of it, from a form that is installed; that of the host takes less time."""
        try:
            return self.host().spec
        except HeadraceError:
            if "compiled" not in self.forms:
                raise
            return self.compiled().spec

    def compiled(self) -> CompiledEnv:
        """The environment as pure JAX functions: one object for equal values, so that its programs compile once."""
        return _shared(self._form("compiled").make, self._place[1], self.rules)

    def host(self) -> HostEnv:
        """The environment as Python steps it."""
        if self.given is not None:
            return given.host_env(self.given, self.name, self.rules)
        return self._form("host").make(self._place[1], self.rules)

    def _form(self, name: str) -> Form:
        forms = self._place[0].forms
        if name not in forms:
            raise BadSetting(f"{self.name} has no {name} form: it runs as {' or '.join(forms)} only")
        form = forms[name]
        if missing := form.missing():
            way = "on the host" if name == "host" else "compiled"
            others = " (or use the compiled form)" if name == "host" and self._ready else ""
            raise HeadraceError(
                f"{self.name} {way} needs the {_listed(missing)}: pip install 'headrace[{form.extra}]'{others}"
            )
        return form


def _listed(packages: list[str]) -> str:
    """`a package`, `a and b packages`, `a, b and c packages`."""
    *first, last = packages
    return f"{', '.join(first)} and {last} packages" if first else f"{last} package"


@cache
def _shared(compiled: Callable[[str, Any], CompiledEnv], member: str, rules: Part) -> CompiledEnv:
    return compiled(member, rules)


EnvLike: TypeAlias = "str | Environment | HostEnv | gymnasium.Env[Any, Any] | Callable[..., Any]"


def names() -> list[str]:
    """The environments that have a name of their own; any `gym/ID` is one too."""
    return [f"{family}/{member}" for family, found in FAMILIES.items() for member in found.members]


def environment(name: str) -> Environment:
    """The environment of that name with its usual rules."""
    family, _, member = name.partition("/")
    found = FAMILIES.get(family)
    if any(sign in name for sign in "*?"):
        raise UnknownName(f"{name!r} names several environments: `headrace sweep VARIANT {name!r}` trains on them all")
    if found is not None and not member:
        raise UnknownName(f"{name!r} names no environment: {_some_of(family)}")
    if found is None or not (member in found.members or (member and not found.members)):
        raise unknown("environment", name, _akin(family, member or name) or names(), _meant(name))
    return Environment(name, found.rules)


def environment_of(data: Mapping[str, Any]) -> Environment:
    """The environment that `Environment.identity` described."""
    found = environment(data["name"])
    return replace(found, rules=from_json(data["rules"], type(found.rules)))


def environment_given(env: EnvLike) -> Environment:
    """The environment that a name stands for, or that an object or a function gives."""
    if isinstance(env, Environment):
        return env
    if isinstance(env, str):
        return environment(env)
    name, rules = f"own/{given.label_of(env)}", FAMILIES["own"].rules
    if given.is_path(name):
        return Environment(name, rules, (), env)
    spec = given.host_env(env, name, rules).spec
    return Environment(name, rules, ("x".join(map(str, spec.observation_shape)), spec.n_actions), env)


def _some_of(family: str) -> str:
    """How the environments of a family are named, by a few of them."""
    if members := FAMILIES[family].members:
        some = ", ".join(f"{family}/{member}" for member in members[:LISTED_NAMES])
        more = len(members) - LISTED_NAMES
        return f"name one, such as {some}{f' or {more} more' if more > 0 else ''}; `headrace envs` lists them."
    return f"give an id after the slash ({FAMILIES[family].about})."


def _meant(name: str) -> list[str]:
    """What another name of an environment is called here: a game of ours, or gym/ID; none where it is no such name."""
    found = re.fullmatch(r"(?:\w+/)?([A-Z]\w*?)(?:NoFrameskip|Deterministic)?-v\d+", name)
    if found:
        family = "minatar" if name.startswith("MinAtar/") else "atari"
        ours = f"{family}/{_snake(found[1])}"
        return [ours] if ours in names() else [f"gym/{name}"]
    return [] if "/" in name else _bare(_snake(name))


def _bare(member: str) -> list[str]:
    """The environments of that name, or nearly that, in any family; MinAtar's first."""
    ours: dict[str, list[str]] = {}
    for name in sorted(names(), key=lambda name: (not name.startswith("minatar/"), name)):
        ours.setdefault(name.partition("/")[2], []).append(name)
    theirs = {_snake(name.rpartition("-v")[0]): [f"gym/{name}"] for name in _gymnasium_ids()}
    found = ours if member in ours else theirs | ours
    near = difflib.get_close_matches(member, found, n=1, cutoff=NEAR)
    return found[near[0]] if near else []


def _gymnasium_ids() -> list[str]:
    """What Gymnasium itself has, where it is installed."""
    if find_spec("gymnasium") is None:
        return []
    import gymnasium

    return list(gymnasium.registry)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")


def _akin(family: str, member: str) -> list[str]:
    """The names of that family, and those of that member in others."""
    split = ((name, name.partition("/")) for name in names())
    return [name for name, (its_family, _, its_member) in split if its_family == family or its_member == member]


def matching(word: str) -> list[str]:
    """The names that a word stands for: itself, or all that a pattern such as `minatar/*` or `atari26/*` matches."""
    if not any(sign in word for sign in "*?"):
        return [environment(word).name]
    family, _, pattern = word.partition("/")
    inside = [name for name in SETS.get(family, ()) if fnmatchcase(name.partition("/")[2], pattern)]
    found = inside or [name for name in names() if fnmatchcase(name, word)]
    if not found:
        groups = [*(name for name, its in FAMILIES.items() if its.members), *SETS]
        known = ", ".join(f"{name}/*" for name in groups)
        raise UnknownName(f"an empty grid: no environment matches {word!r}. Patterns are such as {known}.")
    return found


@overload
def make(name: str, form: Literal["host"] = ...) -> HostEnv: ...
@overload
def make(name: str, form: str) -> Any: ...
def make(name: str, form: str = "host") -> Any:
    """An environment ready to use.

    Args:
        name: Such as `minatar/breakout` or `gym/CartPole-v1`; `headrace envs` lists them.
        form: `host` is stepped from Python, `compiled` is pure JAX functions.

    Returns:
        A `HostEnv` or a `CompiledEnv`.

    Example:
        ```python
        env = headrace.make_env("minatar/breakout")
        obs = env.reset(seed=0)
        ```
    """
    if form not in FORMS:
        raise BadSetting(f"an environment's form is {' or '.join(FORMS)}, got {form!r}")
    found = environment(name)
    return found.compiled() if form == "compiled" else found.host()
