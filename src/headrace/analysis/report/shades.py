"""Agents' colours as style sheets: as in every figure, lifted where a dark ground would swallow them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analysis.style import look_of

DARK_GROUND = (0x19, 0x1D, 0x21)
ENOUGH = 4.0  # contrast; WCAG asks 3 of graphics
WIDTH = 1.9  # of a line, pixels

Rgb = tuple[int, int, int]


def agent_styles(agents: Sequence[str]) -> str:
    light = "".join(f".agent-{n}{{--c:{look_of(agent).colour}}}" for n, agent in enumerate(agents))
    dark = "".join(f".agent-{n}{{--c:{lifted(look_of(agent).colour)}}}" for n, agent in enumerate(agents))
    return f"{light}\n@media (prefers-color-scheme: dark){{{dark}}}"


def dash_of(agent: str) -> str:
    return " ".join(f"{WIDTH * length:g}" for length in look_of(agent).dashes)


def lifted(colour: str) -> str:
    """The colour with as little white in it as makes it stand out from a dark ground."""
    rgb = _rgb(colour)
    mixed = next(m for white in range(0, 101, 5) if contrast(m := _mixed(rgb, white / 100), DARK_GROUND) >= ENOUGH)
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def _rgb(colour: str) -> Rgb:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def _mixed(rgb: Rgb, white: float) -> Rgb:
    red, green, blue = (round(channel + (255 - channel) * white) for channel in rgb)
    return red, green, blue


def contrast(a: Rgb, b: Rgb) -> float:
    """The contrast ratio of two colours as WCAG defines it."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(rgb: Rgb) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
