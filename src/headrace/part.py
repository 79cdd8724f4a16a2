"""Parts: frozen values that compose into an agent. They print as the expression that builds them.

A slot is the abstract base of the parts that may stand in one place: a field declared with a slot takes every part of
that base, also one of somebody else's package. Such a part is written by its import path, `my_rules.MellowQ`.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from headrace.errors import BadSetting, HeadraceError, UnknownName, unknown

KINDS: dict[str, type[Part]] = {}  # every kind of part by the name that it is written by
_EXAMPLES = "a number, a tuple such as (32, 64), or a part such as Every(5)"


UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}


def number_of(text: str) -> float:
    """30, 5e6, 20k or 1.5M; ValueError for what is no number."""
    unit = UNITS.get(text[-1:].lower())
    try:
        return float(f"{float(text[:-1]) * unit:.12g}") if unit else float(text)
    except ValueError:
        raise ValueError(f"must be a number such as 30, 20k or 5e6, got {text!r}") from None


def shape(default: Any) -> Any:
    """A field that decides the shape or size of arrays; every other number may vary inside one compiled program."""
    return field(default=default, metadata={"shape": True})


LARGEST = 2**31 - 1  # of a whole number: what a compiled program can count to


def within(default: float, low: float = -math.inf, high: float = math.inf) -> Any:
    """A number with bounds, both included."""
    return field(default=default, metadata={"low": low, "high": high})


def since(default: Part, before: Part) -> Any:
    """A field of a later version: JSON that was written without it means `before`."""
    return field(default=default, metadata={"before": before})


def added(default: Any) -> Any:
    """A field of a later version, whose default is what was done before. It is written and printed only where it
    differs, so that older agents keep their identity and name."""
    return field(default=default, metadata={"added": True})


def positive(default: float, remedy: str) -> Any:
    """A number above zero; the error for another says the remedy."""
    return field(default=default, metadata={"positive": remedy})


@dataclass(frozen=True)
class Part:
    """Base of all parts. A number is made the type that its field declares, and is checked, when the part is built."""

    is_slot: ClassVar[bool] = False

    def __init_subclass__(cls, slot: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.is_slot = slot
        cls.__repr__ = Part.__repr__  # type: ignore[method-assign]  # else the decorator makes one of its own
        if not slot:
            KINDS[written_name(cls)] = cls

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in _written(self).items())
        return f"{written_name(type(self))}({fields})"

    def settings(self) -> dict[str, Any]:
        """What may be set of the part, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __post_init__(self) -> None:
        kind: Any = type(self)
        if kind.is_slot:
            raise BadSetting(f"{kind.__name__} is a slot, not a part; it takes {fitting(kind)}")
        if vars(kind).get("__annotations__") and "__dataclass_fields__" not in vars(kind):
            raise BadSetting(f"the class {written_name(kind)} lacks its decorator: @dataclass(frozen=True)")
        for f in dataclasses.fields(self):
            value = _checked(kind.__name__, f, types_of(kind)[f.name], getattr(self, f.name))
            object.__setattr__(self, f.name, value)


def written_name(kind: type[Part]) -> str:
    """The name that a kind of part is printed and saved by: its own, or its import path if another package has it."""
    return f"{kind.__module__}.{kind.__qualname__}" if is_foreign(kind) else kind.__name__


def is_foreign(kind: type[Part]) -> bool:
    """Whether another package than this one has the part."""
    return kind.__module__.partition(".")[0] != __name__.partition(".")[0]


@cache
def types_of(kind: Any) -> dict[str, Any]:
    """What each field of a kind of part is declared to be."""
    try:
        return get_type_hints(kind)
    except NameError as error:
        why = f"{error}; define it at the top level of a module, after what its fields name"
        raise BadSetting(f"the annotations of {written_name(kind)} cannot be read: {why}") from None


def is_tuple(declared: Any) -> bool:
    return get_origin(declared) is tuple


def fitting(slot: type[Part]) -> str:
    """The names of the parts that a slot takes."""
    return " | ".join(name for name, kind in KINDS.items() if issubclass(kind, slot))


def _checked(owner: str, f: dataclasses.Field[Any], declared: Any, value: Any) -> Any:
    if declared in (float, int):
        return _number(owner, f, value, declared)
    if is_tuple(declared):
        return _tuple(owner, f.name, value)
    if declared is str:
        if not isinstance(value, str):
            raise BadSetting(f"{owner}.{f.name} must be a text, got {value!r}")
        return value
    kinds = get_args(declared) or (declared,)
    if not all(isinstance(kind, type) and issubclass(kind, Part) for kind in kinds):
        raise BadSetting(f"{owner}.{f.name} is declared as {f.type}: a field is a number, a text, a tuple or a part")
    if not isinstance(value, kinds):
        raise BadSetting(f"{owner}.{f.name} must be one of {' | '.join(map(fitting, kinds))}, got {value!r}")
    return value


def _number(owner: str, f: dataclasses.Field[Any], value: Any, kind: Callable[[Any], Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadSetting(f"{owner}.{f.name} must be a number, got {value!r}")
    if abs(value) > sys.float_info.max or value != value or kind(value) != value:
        raise BadSetting(f"{owner}.{f.name} must be {'a whole' if kind is int else 'a finite'} number, got {value!r}")
    if (remedy := f.metadata.get("positive")) and value <= 0:
        raise BadSetting(f"{owner}.{f.name} must be > 0, got {kind(value)!r}; {remedy}")
    low, high = f.metadata.get("low", -math.inf), f.metadata.get("high", math.inf)
    if f.metadata.get("shape"):
        low = 1
    if kind is int:
        high = min(high, LARGEST)
    if not low <= value <= high:
        bounds = f">= {low}" if high in (math.inf, LARGEST) and value < low else f"between {low} and {high}"
        raise BadSetting(f"{owner}.{f.name} must be {bounds}, got {value!r}")
    return kind(value)


def _tuple(owner: str, name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise BadSetting(f"{owner}.{name} must be a non-empty tuple, got {value!r}")
    items = tuple(_tuple(owner, name, item) if isinstance(item, list | tuple) else item for item in value)
    for item in items:
        if not isinstance(item, tuple) and (isinstance(item, bool) or not isinstance(item, int) or item < 1):
            raise BadSetting(f"{owner}.{name} must hold whole numbers >= 1, got {item!r}")
    return items


@dataclass(frozen=True)
class Keywords(Part):
    """Words for somebody else's function: any names, each with a number, a text, a truth value or a tuple of these."""

    items: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        items = tuple(sorted((name, _hashable(value)) for name, value in self.items))
        for name, value in items:
            if not name.isidentifier() or not all(isinstance(v, int | float | str) for v in _flat(value)):
                raise BadSetting(f"{name}={value!r} is no keyword with a number, a text, a truth value or a tuple")
        object.__setattr__(self, "items", items)

    def settings(self) -> dict[str, Any]:
        return dict(self.items)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _flat(value: Any) -> list[Any]:
    return [x for item in value for x in _flat(item)] if isinstance(value, tuple) else [value]


def to_json(part: Part) -> dict[str, Any]:
    """The part as plain JSON values; `from_json` gives back an equal part."""
    fields = {name: _plain(value) for name, value in _written(part).items()}
    return {"part": written_name(type(part)), **fields}


def _written(part: Part) -> dict[str, Any]:
    """The settings that are written: all but `added` ones at their default."""
    unsaid = {f.name: f.default for f in dataclasses.fields(part) if f.metadata.get("added")}
    return {name: value for name, value in part.settings().items() if name not in unsaid or value != unsaid[name]}


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return to_json(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def from_json(data: Mapping[str, Any], kind: type[Part] = Part) -> Any:
    """The part of that kind that `to_json` wrote. A field that it did not write yet has the value that it had then."""
    fields = {k: from_json(v) if isinstance(v, Mapping) else v for k, v in data.items() if k != "part"}
    named = kind_named(str(data.get("part")))
    before = {f.name: f.metadata["before"] for f in dataclasses.fields(named) if "before" in f.metadata}
    found = build(named, (), {**before, **fields})
    if not isinstance(found, kind):
        raise BadSetting(f"{found!r} stands where a part of the kind {kind.__name__} belongs")
    return found


def is_at_hand(data: Mapping[str, Any]) -> bool:
    """Whether `from_json` would import nothing: looking at results must not run the code that they name."""
    known = str(data.get("part")) in KINDS or "." not in str(data.get("part"))
    return known and all(is_at_hand(value) for value in data.values() if isinstance(value, Mapping))


def kind_named(name: str, known: Sequence[str] = ()) -> type[Part]:
    """The kind of part of this name, or at this import path; the error for another lists those `known`, or all."""
    kind = KINDS.get(name) or (at_path(name) if "." in name else None)
    if not (isinstance(kind, type) and issubclass(kind, Part)) or kind.is_slot:
        raise unknown("part", name, known or KINDS)
    return kind


def imported(module: str) -> ModuleType:
    """A user's module, which may stand in the present folder, as `python -m` would find it."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:
        absent = isinstance(error, ModuleNotFoundError) and module.startswith(str(error.name))
        remedy = f". Start in the folder that holds {module}, or put it on PYTHONPATH" if absent else ""
        raise HeadraceError(f"cannot import {module}: {type(error).__name__}: {error}{remedy}") from error


def at_path(path: str) -> Any:
    """What an import path such as `my_package.module.NAME` leads to; None where the module has no such name."""
    module, _, name = path.rpartition(".")
    return getattr(imported(module), name, None)


def build(kind: type[Part], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The part of that kind with those fields."""
    name = kind.__name__
    if kind is Keywords and not args:
        return Keywords(tuple(kwargs.items()))
    known = [f.name for f in dataclasses.fields(kind)]
    for key in kwargs:
        if key not in known:
            raise unknown(f"setting of {name}", key, known)
    if len(args) > len(known):
        raise BadSetting(f"{name} takes {len(known)} settings ({', '.join(known)}), got {len(args)}")
    try:
        return kind(*args, **kwargs)
    except TypeError as error:  # a setting that is wanting, or given twice
        raise BadSetting(f"{name} cannot be built: {str(error).replace('__init__() ', '')}") from None


def parse(text: str, fitting: Sequence[str] = ()) -> Any:
    """The value that an expression of numbers, tuples and parts stands for. Nothing else is evaluated.

    `fitting` are the parts that an error for an unknown one lists; without it, all.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadSetting(f"cannot read the value {text!r}: it must be {_EXAMPLES}") from None
    return _value(node, text, fitting)


def _value(node: ast.expr, text: str, fitting: Sequence[str] = ()) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_value(item, text) for item in items)
        case ast.Name() | ast.Attribute() if (name := _dotted(node)).rpartition(".")[2][:1].isupper():
            return build(kind_named(name, fitting), (), {})  # a part's name begins with a capital letter
        case ast.Call(func=ast.Name() | ast.Attribute() as called, args=args, keywords=keywords) if name := _dotted(
            called
        ):
            named = {str(k.arg): _value(k.value, text) for k in keywords}
            if len(named) < len(keywords):
                raise BadSetting(f"a setting of {name} is given twice in {text!r}")
            return build(kind_named(name, fitting), tuple(_value(a, text) for a in args), named)
    raise BadSetting(f"cannot read the value {text!r}: it must be {_EXAMPLES}")


def _dotted(node: ast.expr) -> str:
    """`a.b.C` as it is written; empty where the expression is no such path."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def tweak(part: Any, *settings: str) -> Any:
    """The part with each `path.to.field=value` applied, from left to right.

    Args:
        part: An agent, or any part of one.
        settings: Such as `td.lr=3e-4`, `aux.gate=Every(5)` or `td.target=Copy(every=1000)`.

    Returns:
        A new part; the given one is left as it is.

    Example:
        ```python
        agent = headrace.tweak(headrace.agent("qrc+spr"), "aux.objective.horizon=3", "aux.gate=Every(5)")
        ```
    """
    for setting in settings:
        path, sep, text = setting.partition("=")
        if not sep or not path.strip():
            raise BadSetting(f"a setting has the form path.to.field=value, got {setting!r}")
        part = _replaced(part, path.strip().split("."), path.strip(), text)
    return part


def paths(part: Part) -> list[str]:
    """The dotted path of every setting."""
    found = []
    for name, value in part.settings().items():
        found += [name, *(f"{name}.{path}" for path in (paths(value) if isinstance(value, Part) else ()))]
    return found


def has(part: Any, path: str) -> bool:
    """Whether the part has a setting of this dotted path."""
    for key in path.split("."):
        if not isinstance(part, Part) or key not in part.settings():
            return False
        part = part.settings()[key]
    return True


def _replaced(part: Any, keys: list[str], path: str, text: str) -> Any:
    key, rest = keys[0], keys[1:]
    if isinstance(part, Keywords) and not rest:
        return Keywords(tuple({**part.settings(), key: _free(text)}.items()))
    names = list(part.settings()) if isinstance(part, Part) else []
    if not names:
        raise BadSetting(f"cannot set {path}: {keys_above(path, keys)} is {part!r}, which has no settings")
    if key not in names:
        where = f" (in {path})" if path != key else ""
        deeper = [inner for inner in paths(part) if inner.endswith(f".{key}")]
        raise unknown(f"setting of {type(part).__name__}{where}", key, names, deeper[:1])
    if rest:
        new = _replaced(getattr(part, key), rest, path, text)
    else:
        declared = types_of(type(part))[key]  # type: ignore[arg-type]
        new = str(_free(text)) if declared is str else _read(text, path, declared)
    return dataclasses.replace(part, **{key: new})


def _read(text: str, path: str, declared: Any) -> Any:
    """The value of a setting; the error for a part that is unknown lists those that fit."""
    kinds = [kind for kind in get_args(declared) or (declared,) if isinstance(kind, type) and issubclass(kind, Part)]
    try:
        return parse(text, [name for kind in kinds for name in fitting(kind).split(" | ")])
    except (BadSetting, UnknownName) as error:
        raise type(error)(f"{path}: {error}") from None


def _free(text: str) -> Any:
    """The Python value that is written there, or else the text itself."""
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text.strip()


def keys_above(path: str, rest: list[str]) -> str:
    """The part of a dotted path that comes before its last `rest`."""
    return ".".join(path.split(".")[: -len(rest)])


def differences(part: Part, base: Part, path: str = "") -> list[str]:
    """The settings that make `base` into `part`: `tweak(base, *differences(part, base)) == part`."""
    if type(part) is not type(base):
        return [f"{path}={part!r}"]
    found, before = list[str](), base.settings()
    if before.keys() - part.settings().keys():  # keywords that there are no more
        return [f"{path}={part!r}"]
    for name, mine in part.settings().items():
        theirs, here = before.get(name), f"{path}.{name}" if path else name
        if isinstance(mine, Part) and isinstance(theirs, Part):
            found += differences(mine, theirs, here)
        elif mine != theirs:
            found.append(f"{here}={mine!r}")
    return found
