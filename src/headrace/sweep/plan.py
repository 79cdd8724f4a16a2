"""A plan is a list of runs: a grid of variants, settings, environments and seeds, or what a Python file returns."""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headrace.agents import KNOWN, Agent, agent_named, name_of
from headrace.envs import registry
from headrace.errors import BadSetting, HeadraceError, UnknownName
from headrace.part import has, tweak
from headrace.training.run import Run, make_run

SEEDS = "0:5"
OF_ENV = "env."  # what settings of the environment's rules begin with
MOST = 100_000  # runs of a plan
FUNCTION = "plan"  # what a plan file defines


def grid(
    variants: str | Agent | Sequence[str | Agent],
    envs: str | Sequence[str],
    *,
    seeds: str | int | Iterable[int] = SEEDS,
    steps: float | str = 5_000_000,
    settings: str | Sequence[str] = (),
    engine: str = "auto",
    form: str = "auto",
) -> list[Run]:
    """Every combination, none twice.

    Args:
        variants: Agents, or words: lists (`qrc,dqn`) and patterns (`qrc*`).
        envs: Likewise (`minatar/*`).
        seeds: `0:5` (0 to 4), `0,3,7`, a number, or numbers.
        steps: Of each run.
        settings: Alternatives (`aux.weight=0.5|1|2`) multiply the grid. An agent without the setting is in it once.
        engine: As for `train`.
        form: As for `train`.

    Returns:
        A plan: a list of runs, to which others can be added.

    Example:
        ```python
        def plan():
            return grid("qrc,qrc+spr", "minatar/*", seeds="0:3", steps=1e6, settings=["aux.weight=1|2"])
        ```
    """
    numbers, rest = seed_list(seeds), {"steps": steps, "engine": engine, "form": form}
    made = (_made(cell, seed=seed, **rest) for cell in _cells(variants, envs, settings) for seed in numbers)
    return list(dict.fromkeys(made))


def left_out(
    variants: str | Agent | Sequence[str | Agent], envs: str | Sequence[str], settings: str | Sequence[str] = ()
) -> list[str]:
    """Notices of settings that only some agents or environments of a grid have."""
    without: dict[str, dict[str, None]] = {}
    for cell in _cells(variants, envs, settings):
        for setting in cell.left:
            path = _path(setting)
            owner = cell.env if path.startswith(OF_ENV) else cell.called
            without.setdefault(path, {})[owner] = None
    return [f"{path} is no setting of {', '.join(owners)}: left out there" for path, owners in without.items()]


class _Cell(NamedTuple):
    """A variant on an environment, with one choice of the settings."""

    agent: str | Agent
    env: str
    settings: tuple[str, ...]
    left: tuple[str, ...] = ()  # settings that neither has

    @property
    def called(self) -> str:
        return self.agent if isinstance(self.agent, str) else name_of(self.agent)


def _cells(
    variants: str | Agent | Sequence[str | Agent], envs: str | Sequence[str], settings: str | Sequence[str]
) -> list[_Cell]:
    agents = _named("variant", variants, _variants_matching)
    places = _named("environment", envs, registry.matching)
    each = [settings] if isinstance(settings, str) else settings
    chosen = itertools.product(*(_alternatives(setting) for setting in each))
    whole = [_Cell(agent, env, choice) for agent, choice, env in itertools.product(agents, chosen, places)]
    cells = [_without_what_it_has_not(cell) for cell in whole]
    placed = {setting for cell in cells for setting in cell.settings}
    for setting in dict.fromkeys(setting for cell in whole for setting in cell.settings):
        if setting not in placed:
            raise _why_not(cell for cell in whole if setting in cell.settings)
    return cells


def _without_what_it_has_not(cell: _Cell) -> _Cell:
    """Each setting is asked for in what the ones before it made."""
    agent = agent_named(cell.agent) if isinstance(cell.agent, str) else cell.agent
    parts = {"": agent, OF_ENV: registry.environment(cell.env).rules}
    kept, left = [], []
    for setting in cell.settings:
        of = OF_ENV if setting.startswith(OF_ENV) else ""
        if has(parts[of], _path(setting).removeprefix(of)):
            kept.append(setting)
            with suppress(HeadraceError):  # a bad value: whoever makes the run says so
                parts[of] = tweak(parts[of], setting.removeprefix(of))
        else:
            left.append(setting)
    return cell._replace(settings=tuple(kept), left=tuple(left))


def _path(setting: str) -> str:
    return setting.partition("=")[0].strip()


def _why_not(cells: Iterable[_Cell]) -> HeadraceError:
    """The error of settings that none of these has; an unknown name with a suggestion is preferred."""
    errors = [error for cell in cells if (error := _error_of(cell))]
    return next((error for error in errors if isinstance(error, UnknownName)), errors[0])


def _error_of(cell: _Cell) -> HeadraceError | None:
    try:
        _made(cell)
    except HeadraceError as error:
        return error
    return None


def _made(cell: _Cell, **rest: Any) -> Run:
    try:
        return make_run(cell.agent, cell.env, settings=cell.settings, **rest)
    except (UnknownName, BadSetting) as error:
        raise type(error)(f"{cell.called} on {cell.env}: {str(error).rstrip('.')}.") from error


def _named(kind: str, words: str | Agent | Sequence[str | Agent], matching: Callable[[str], list[str]]) -> list[Any]:
    """What the words stand for, in order and without duplicates; agents given as values stay as they are."""
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
        agent_named(word)
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
    if "|" in values and not all(value.strip() for value in values.split("|")):
        raise BadSetting(f"an alternative is empty in {setting!r}: they are written {path}=1|2")
    return [f"{path}{equals}{value}" for value in values.split("|")]


def read_plan(words: str | Path) -> list[Run]:
    """The runs that a file's function `plan()` returns; `FILE::NAME` calls another function of it."""
    name, _, function = str(words).partition("::")
    path = Path(name)
    if not path.is_file():
        raise HeadraceError(f"there is no plan file {name}")
    function = function or FUNCTION
    make = None
    try:
        make = getattr(_loaded(path), function, None)
        runs = _listed(make()) if callable(make) else []
    except (Exception, SystemExit) as error:
        raise HeadraceError(_where(path, error, make)) from error
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


def _where(path: Path, error: BaseException, make: Any) -> str:
    """The file, the line in it that raised the error, and the error's message."""
    cause = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        line = error.lineno or _line_of_nul(path)
        file = error.filename if error.filename and Path(error.filename).absolute() != path.absolute() else path
        where = f"{file}, line {line}" if line else f"{path}"
        return f"{where}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).absolute() == path.absolute()]
    if not lines and hasattr(make, "__code__"):  # it could not even be called
        lines = [make.__code__.co_firstlineno]
    return f"{path}, line {lines[-1]}: {cause}" if lines else f"{path}: {cause}"


def _line_of_nul(path: Path) -> int:
    """Python does not say where a file has a byte that no program has; 0 where it has none."""
    before, nul, _ = path.read_bytes().partition(b"\0")
    return before.count(b"\n") + 1 if nul else 0


def _listed(runs: Any) -> list[Any]:
    """The runs of a plan; a generator runs only now, and may never end."""
    found = list(itertools.islice(runs, MOST + 1)) if isinstance(runs, Iterable) else [runs]
    if len(found) > MOST:
        raise HeadraceError(f"the plan gave more than {MOST:,} runs: does it end?")
    return found


def _checked(path: Path, function: str, found: list[Any]) -> list[Run]:
    for item in found:
        if not isinstance(item, Run):
            raise HeadraceError(f"{path}: {function}() must return a list of runs, as grid(...) does; got {item!r}")
    if not found:
        raise HeadraceError(f"{path}: {function}() gave an empty plan")
    return list(dict.fromkeys(found))
