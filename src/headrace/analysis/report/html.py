"""HTML from Python values. Text is escaped unless it was made here, so no name can break out of its place."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

VOID = ("img", "input", "meta", "line", "link")


class Html(str):
    """Text that is HTML already."""


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element. `class_` stands for class, `data_x` for data-x; an attribute that is None or False is left out."""
    words = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    start = f"<{name}{words}>"
    return Html(start if name in VOID else f"{start}{join(children)}</{name}>")


def join(children: Iterable[Any], between: str = "") -> Html:
    return Html(escape(between).join(_child(child) for child in children))


def _child(child: Any) -> str:
    if isinstance(child, Html):
        return child
    if isinstance(child, list | tuple):
        return join(child)
    return escape(str(child))


def _attribute(key: str, value: Any) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
