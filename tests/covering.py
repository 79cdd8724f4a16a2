"""Few agents that have every part among them: what is true of each part is tried on those in the usual run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from headrace.agents import agent_named


def slots(part: Any, slot: str = "agent") -> Iterator[tuple[str, type]]:
    """Every part of an agent with the slot that it is in."""
    if is_dataclass(part):
        yield slot, type(part)
        for field in fields(part):
            yield from slots(getattr(part, field.name), field.name)


def covering(names: Iterable[str]) -> list[str]:
    """Few of these agents that have among them every part in every slot, those with the most new ones first."""
    left, chosen = {name: set(slots(agent_named(name))) for name in names}, []
    while any(left.values()):
        chosen.append(max(left, key=lambda name: len(left[name])))
        seen = left[chosen[-1]]
        left = {name: parts - seen for name, parts in left.items()}
    return chosen
