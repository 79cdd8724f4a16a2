"""A plan is a list of runs: the product of variants, settings, environments and seeds, or what a Python file gives."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.agents import KNOWN, Agent
from headrace.envs import registry
from headrace.errors import BadSetting, HeadraceError, UnknownName, unknown
from headrace.run import Run, make_run

SEEDS = "0:5"
FUNCTION = "plan"  # what a plan file defines


def grid(
    variants: str | Agent | Sequence[str | Agent],
    envs: str | Sequence[str],
    *,
    seeds: str | int | Iterable[int] = SEEDS,
    steps: float = 5_000_000,
    settings: Sequence[str] = (),
    engine: str = "auto",
    form: str = "auto",
) -> list[Run]:
    """Every combination, none twice. Words are lists (`qrc,dqn`) and patterns (`minatar/*`); seeds are `0:5` or `0,3`.

    A setting's alternatives (`aux.weight=0.5|1|2`) multiply the grid.
    """
    agents = _named("variant", variants, _variants_matching)
    places = _named("environment", envs, registry.matching)
    numbers = seed_list(seeds)
    chosen = list(itertools.product(*(_alternatives(setting) for setting in settings)))
    combinations = itertools.product(agents, chosen, places, numbers)
    made = (
        _made(agent, env, seed=seed, steps=steps, settings=setting, engine=engine, form=form)
        for agent, setting, env, seed in combinations
    )
    return list(dict.fromkeys(made))


def _made(agent: str | Agent, env: str, **rest: Any) -> Run:
    try:
        return make_run(agent, env, **rest)
    except (UnknownName, BadSetting) as error:
        said = f"{agent if isinstance(agent, str) else repr(agent)} on {env}: {str(error).rstrip('.')}."
        remedy = " A setting must apply to all of a grid: sweep this variant by itself." if rest["settings"] else ""
        raise type(error)(said + remedy) from error


def _named(kind: str, words: str | Agent | Sequence[str | Agent], matching: Callable[[str], list[str]]) -> list[Any]:
    """What the words stand for, in their order, none twice; agents that are given as values stay as they are."""
    listed = [words] if isinstance(words, Agent) else _split(words) if isinstance(words, str) else list(words)
    found = [name for word in listed for name in (matching(word) if isinstance(word, str) else [word])]
    if not found:
        raise BadSetting(f"an empty grid: the list of {kind}s {words!r} names none")
    return list(dict.fromkeys(found))


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _variants_matching(word: str) -> list[str]:
    known = list(KNOWN)
    if not any(sign in word for sign in "*?"):
        if word not in known:
            raise unknown("variant", word, known)
        return [word]
    found = [name for name in known if fnmatchcase(name, word)]
    if not found:
        raise UnknownName(f"an empty grid: no variant matches {word!r}. Known: {', '.join(known)}.")
    return found


def seed_list(seeds: str | int | Iterable[int]) -> list[int]:
    """`0:5` is 0 to 4; `0,3,7` are these three; numbers are themselves."""
    if isinstance(seeds, int):
        return [seeds]
    if not isinstance(seeds, str):
        return list(dict.fromkeys(seeds)) or _no_seed(seeds)
    try:
        found = [seed for word in _split(seeds) for seed in _range(word)]
    except ValueError:
        raise BadSetting(f"seeds are written 0:5 (0 to 4) or 0,3,7, got {seeds!r}") from None
    return list(dict.fromkeys(found)) or _no_seed(seeds)


def _range(word: str) -> Iterable[int]:
    first, colon, end = word.partition(":")
    return range(int(first), int(end)) if colon else [int(first)]


def _no_seed(seeds: object) -> list[int]:
    raise BadSetting(f"an empty grid: the seeds {seeds!r} name none (0:5 are 0 to 4)")


def _alternatives(setting: str) -> list[str]:
    path, equals, values = setting.partition("=")
    return [f"{path}{equals}{value}" for value in values.split("|")]


def read_plan(words: str | Path) -> list[Run]:
    """The runs that a file's function `plan()` returns; `FILE::NAME` calls another function of it."""
    name, _, function = str(words).partition("::")
    path = Path(name)
    if not path.is_file():
        raise HeadraceError(f"there is no plan file {name}")
    function = function or FUNCTION
    try:
        make = getattr(_loaded(path), function, None)
        runs = _listed(make()) if callable(make) else []
    except (Exception, SystemExit) as error:
        raise HeadraceError(_where(path, error)) from error
    if make is None or not callable(make):
        raise HeadraceError(f"{path} defines no function {function}() that returns a list of runs")
    return _checked(path, function, runs)


def _loaded(path: Path) -> ModuleType:
    """The file as a module; it may import what lies beside it, as a script may."""
    name = f"headrace_plan_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HeadraceError(f"a plan is a Python file, got {path}")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def _where(path: Path, error: BaseException) -> str:
    """The file, the line of it that the error came from, and what the error says."""
    cause = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        line = error.lineno or _line_of_nul(path)
        where = f"{error.filename or path}, line {line}" if line else f"{path}"
        return f"{where}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).absolute() == path.absolute()]
    return f"{path}, line {lines[-1]}: {cause}" if lines else f"{path}: {cause}"


def _line_of_nul(path: Path) -> int:
    """Python does not say where a file has a byte that no program has; 0 where it has none."""
    before, nul, _ = path.read_bytes().partition(b"\0")
    return before.count(b"\n") + 1 if nul else 0


def _listed(runs: Any) -> list[Any]:
    """What a plan gave; one that is a generator runs only now."""
    return list(runs) if isinstance(runs, Iterable) else [runs]


def _checked(path: Path, function: str, found: list[Any]) -> list[Run]:
    for item in found:
        if not isinstance(item, Run):
            raise HeadraceError(f"{path}: {function}() must return a list of runs, as grid(...) does; got {item!r}")
    if not found:
        raise HeadraceError(f"{path}: {function}() gave an empty plan")
    return list(dict.fromkeys(found))
