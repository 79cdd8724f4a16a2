"""Parts: frozen values that compose into an agent. They print as the expression that builds them."""

from __future__ import annotations

import ast
import dataclasses
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import BadSetting, unknown

KINDS: dict[str, type[Part]] = {}  # every kind of part by its name
_EXAMPLES = "a number, a tuple such as (32, 64), or a part such as Every(5)"


def shape(default: Any) -> Any:
    """A field that decides the shape or size of arrays; every other number may vary inside one compiled program."""
    return field(default=default, metadata={"shape": True})


LARGEST = 2**31 - 1  # of a whole number: what a compiled program can count to


def within(default: float, low: float = -math.inf, high: float = math.inf) -> Any:
    """A number with bounds, both included."""
    return field(default=default, metadata={"low": low, "high": high})


def since(default: Part, before: Part) -> Any:
    """A part that was not always there: what was written before it came stands for `before`."""
    return field(default=default, metadata={"before": before})


def added(default: Part) -> Any:
    """A part that was not always there, whose default is what there was before: it is written and printed only where it
    differs, so that what was made before keeps its identity and its name."""
    return field(default=default, metadata={"added": True})


def check_positive(part: Part, name: str, remedy: str) -> None:
    """An error where the number is not above zero, with what to write instead."""
    value = getattr(part, name)
    if value <= 0:
        raise BadSetting(f"{type(part).__name__}.{name} must be > 0, got {value!r}; {remedy}")


@dataclass(frozen=True)
class Part:
    """Base of all parts. A number is made the type that its field declares, and is checked, when the part is built."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        KINDS[cls.__name__] = cls
        cls.__repr__ = Part.__repr__  # type: ignore[method-assign]  # else the decorator makes one of its own

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in _written(self))})"

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = _checked(type(self).__name__, f, getattr(self, f.name))
            object.__setattr__(self, f.name, value)


def _checked(owner: str, f: dataclasses.Field[Any], value: Any) -> Any:
    if f.type == "float":
        value = _number(owner, f, value, float)
    elif f.type == "int":
        value = _number(owner, f, value, int)
    elif str(f.type).startswith("tuple"):
        value = _tuple(owner, f.name, value)
    elif not isinstance(value, Part) or not isinstance(value, kinds_of(f)):
        names = " | ".join(k.__name__ for k in kinds_of(f))
        raise BadSetting(f"{owner}.{f.name} must be one of {names}, got {value!r}")
    return value


def _number(owner: str, f: dataclasses.Field[Any], value: Any, kind: Callable[[Any], Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadSetting(f"{owner}.{f.name} must be a number, got {value!r}")
    if abs(value) > sys.float_info.max or value != value or kind(value) != value:
        raise BadSetting(f"{owner}.{f.name} must be {'a whole' if kind is int else 'a finite'} number, got {value!r}")
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


def kinds_of(f: dataclasses.Field[Any]) -> tuple[type[Part], ...]:
    """The parts that a field accepts, read from its annotation `A | B`."""
    return tuple(KINDS[name.strip()] for name in str(f.type).split("|"))


def to_json(part: Part) -> dict[str, Any]:
    """The part as plain JSON values; `from_json` gives back an equal part."""
    fields = {f.name: _plain(getattr(part, f.name)) for f in _written(part)}
    return {"part": type(part).__name__, **fields}


def _written(part: Part) -> list[dataclasses.Field[Any]]:
    """The fields that are written down: all but those that were added later and say what went without saying."""
    return [f for f in dataclasses.fields(part) if not f.metadata.get("added") or getattr(part, f.name) != f.default]


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return to_json(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def from_json(data: Mapping[str, Any], kind: type[Part] = Part) -> Any:
    """The part of that kind that `to_json` wrote. A field that it did not write yet has the value that it had then."""
    fields = {k: from_json(v) if isinstance(v, Mapping) else v for k, v in data.items() if k != "part"}
    name = str(data.get("part"))
    known = dataclasses.fields(KINDS[name]) if name in KINDS else ()
    before = {f.name: f.metadata["before"] for f in known if "before" in f.metadata}
    found = build(name, (), {**before, **fields})
    if not isinstance(found, kind):
        raise BadSetting(f"{found!r} stands where a part of the kind {kind.__name__} belongs")
    return found


def build(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The part of that name with those fields."""
    if name not in KINDS:
        raise unknown("part", name, sorted(KINDS))
    kind = KINDS[name]
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


def parse(text: str) -> Any:
    """The value that an expression of numbers, tuples and parts stands for. Nothing else is evaluated."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadSetting(f"cannot read the value {text!r}: it must be {_EXAMPLES}") from None
    return _value(node, text)


def _value(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_value(item, text) for item in items)
        case ast.Name(id=name) if name[:1].isupper():  # as the names of parts are
            return build(name, (), {})
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            named = {str(k.arg): _value(k.value, text) for k in keywords}
            if len(named) < len(keywords):
                raise BadSetting(f"a setting of {name} is given twice in {text!r}")
            return build(name, tuple(_value(a, text) for a in args), named)
    raise BadSetting(f"cannot read the value {text!r}: it must be {_EXAMPLES}")


def tweak(part: Any, *settings: str) -> Any:
    """The part with each `path.to.field=value` applied, from left to right."""
    for setting in settings:
        path, sep, text = setting.partition("=")
        if not sep or not path.strip():
            raise BadSetting(f"a setting has the form path.to.field=value, got {setting!r}")
        try:
            value = parse(text)
        except BadSetting as error:
            raise BadSetting(f"{path.strip()}: {error}") from None
        part = _replaced(part, path.strip().split("."), path.strip(), value)
    return part


def has(part: Any, path: str) -> bool:
    """Whether the part has a setting of this dotted path."""
    for key in path.split("."):
        if not isinstance(part, Part) or key not in [f.name for f in dataclasses.fields(part)]:
            return False
        part = getattr(part, key)
    return True


def _replaced(part: Any, keys: list[str], path: str, value: Any) -> Any:
    key, rest = keys[0], keys[1:]
    names = [f.name for f in dataclasses.fields(part)] if isinstance(part, Part) else []
    if not names:
        raise BadSetting(f"cannot set {path}: {keys_above(path, keys)} is {part!r}, which has no settings")
    if key not in names:
        where = f" (in {path})" if path != key else ""
        raise unknown(f"setting of {type(part).__name__}{where}", key, names)
    new = _replaced(getattr(part, key), rest, path, value) if rest else value
    return dataclasses.replace(part, **{key: new})


def keys_above(path: str, rest: list[str]) -> str:
    """The part of a dotted path that comes before its last `rest`."""
    return ".".join(path.split(".")[: -len(rest)])


def differences(part: Part, base: Part, path: str = "") -> list[str]:
    """The settings that make `base` into `part`: `tweak(base, *differences(part, base)) == part`."""
    if type(part) is not type(base):
        return [f"{path}={part!r}"]
    found = []
    for f in dataclasses.fields(part):
        mine, theirs = getattr(part, f.name), getattr(base, f.name)
        here = f"{path}.{f.name}" if path else f.name
        if isinstance(mine, Part):
            found += differences(mine, theirs, here)
        elif mine != theirs:
            found.append(f"{here}={mine!r}")
    return found
