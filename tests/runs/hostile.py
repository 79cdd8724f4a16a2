"""Manifests that nobody should write: a good one, harmed in one of many ways."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -0.5, 1e30, 1e300, "", "0", "x" * 600, "x" * 30_000,
    "$\\frac{$", "\ud800", "</script>", "a\0b", "\n", "../../etc/passwd", [], [[]], [None], {}, {"": None},
    {"part": "Spr"}, {"part": "Agent"}, {"part": ["Agent"]}, {"step": "1"}, [{"step": 1}], [{"step": -1, "why": []}],
)  # fmt: skip
RAW = ("NaN", "-Infinity", "1e400", "1e-400", "[" * 50_000 + "]" * 50_000, '{"a":' * 40 + "1" + "}" * 40, "1" * 5000)
MARK = '"MARK"'


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def harmed(good: dict[str, Any], rng: random.Random) -> bytes:
    """The bytes of the manifest with one to three things wrong."""
    facts = json.loads(json.dumps(good))
    raw = ""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(places(facts)))
        owner = facts
        for key in path[:-1]:
            owner = owner[key]
        match rng.randrange(6):
            case 0:
                del owner[path[-1]]
            case 1 if isinstance(owner, dict):
                owner[rng.choice(("part", "steps", "\ud800", "$\\frac{$", "", "x" * 30_000))] = owner.pop(path[-1])
            case 2:
                owner[path[-1]], raw = "MARK", rng.choice(RAW)
            case 3:
                other = rng.choice(list(places(facts)))
                found = facts
                for key in other:
                    found = found[key]
                owner[path[-1]] = json.loads(json.dumps(found))
            case _:
                owner[path[-1]] = copy.deepcopy(rng.choice(VALUES))
    data = json.dumps(facts).replace(MARK, raw or MARK).encode()
    if rng.random() < 0.1:  # a flipped bit, or a file that was cut
        at = rng.randrange(len(data))
        data = (
            data[:at] if rng.random() < 0.3 else data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        )
    return data
