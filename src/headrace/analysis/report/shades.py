"""Agents' looks as the page has them: colours as style sheets, for a light and for a dark ground, and lines."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.analysis.style import Look

WIDTH = 1.9  # of a line, pixels


def agent_styles(looks: Iterable[Look]) -> str:
    """A class for each look, numbered in their order."""
    numbered = list(enumerate(looks))
    light = "".join(f".agent-{n}{{--c:{look.colour}}}" for n, look in numbered)
    dark = "".join(f".agent-{n}{{--c:{look.dark}}}" for n, look in numbered)
    return f"{light}\n@media (prefers-color-scheme: dark){{{dark}}}"


def dash_of(look: Look) -> str:
    return " ".join(f"{WIDTH * length:g}" for length in look.dashes)
