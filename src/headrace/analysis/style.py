"""How agents look in every figure and on every page: one colour, line and marker each.

The hue says the family: dqn red to orange, strq green, qrc blue. What is added to the base agent makes the colour
lighter and breaks the line, so that variants of one family stay apart in grey too. The nine colours were chosen to be
as different as possible to normal, protan, deutan and tritan eyes at once, on a white and on a dark ground. Agents
beyond the nine get what is furthest from the colours of the report's others, and a line that none of them has while
there is one: their looks are given out for all agents of a report together.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

LIGHT_GROUND, DARK_GROUND = "#FFFFFF", "#191D21"
ENOUGH = 4.0  # contrast with a dark ground; WCAG asks 3 of graphics

# What is left of linear red, green and blue to protan, deutan (Vienot, Brettel and Mollon 1999) and tritan eyes
# (Brettel et al. 1997, one half-plane), and to those that see all three.
_EYES = np.array(
    [
        [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
        [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
        [[1.0, 0.14461, -0.14461], [0.0, 0.85924, 0.14076], [0.0, 0.85924, 0.14076]],
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ]
)
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])
PAPER_INK = "#555555"  # the paper's own numbers, in every figure
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.5), (1, 2), (9, 2, 2, 2, 2, 2), (6, 1.2, 1.2, 1.2), (2, 1.2))
MARKERS = "osD^vPX*"
VISIBLE = 2.2  # contrast with white that a colour has at least
BLIND = 3.0  # how much a difference counts to colour-blind eyes, which see fewer, against that to others


def rgb_of(colour: str) -> np.ndarray:
    """Red, green and blue from 0 to 1."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def colour_of(rgb: np.ndarray) -> str:
    return "#" + "".join(f"{round(255 * float(channel)):02X}" for channel in rgb)


def _linear(rgb: np.ndarray) -> np.ndarray:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def seen(colour: str) -> np.ndarray:
    """CIELAB of a colour to protan, deutan, tritan and other eyes, (4 x 3)."""
    xyz = np.clip(_EYES @ _linear(rgb_of(colour)), 0, 1) @ _XYZ.T / _WHITE
    f = np.cbrt(xyz)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def contrast(a: str, b: str) -> float:
    """The contrast ratio of two colours as WCAG defines it."""
    low, high = sorted(float(_XYZ[1] @ _linear(rgb_of(colour))) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def lifted(colour: str) -> str:
    """The colour with as little white in it as makes it stand out from a dark ground."""
    rgb = rgb_of(colour)
    mixed = (colour_of(rgb + (1 - rgb) * white / 100) for white in range(0, 101, 5))
    return next(shade for shade in mixed if contrast(shade, DARK_GROUND) >= ENOUGH)


class Look(NamedTuple):
    """`dashes` are lengths of ink and gap in line widths, empty for a solid line."""

    colour: str
    dark: str  # the colour on a dark ground
    dashes: tuple[float, ...]
    marker: str  # as matplotlib names it


Looks = Mapping[str, Look]  # by agent

LOOKS: dict[str, Look] = {
    "dqn": Look("#942B11", "#C4684E", (), "o"),
    "dqn+spr": Look("#E4AE59", "#DEB92D", (5, 1.5), "s"),
    "strq": Look("#095746", "#4D8C7F", (), "o"),
    "strq+spr": Look("#09A589", "#2BD3BF", (5, 1.5), "s"),
    "strq+spr+orth": Look("#3EDC99", "#8AF0A7", (2, 1.2), "^"),
    "strq+spr+orth2": Look("#AEB90D", "#B7BA70", (6, 1.2, 1.2, 1.2), "D"),
    "qrc": Look("#091275", "#8579B3", (), "o"),
    "qrc+spr": Look("#315DDB", "#398CF1", (5, 1.5), "s"),
    "qrc+spr+orth": Look("#83B3E3", "#85B1D2", (2, 1.2), "^"),
}


def looks_of(agents: Iterable[str]) -> Looks:
    """A look for each of a report's agents: the same for the same agents, in whatever order."""
    return _given_out(tuple(sorted(set(agents))))


@lru_cache(maxsize=16)
def _given_out(agents: tuple[str, ...]) -> Looks:
    looks = {agent: LOOKS[agent] for agent in agents if agent in LOOKS}
    known = list(looks.values()) or [LOOKS["qrc"]]
    places, lines = [place_of(look) for look in known], [look.dashes for look in known]
    colours, free = _candidates()
    nearest = np.min([_apart(free, place) for place in places], axis=0)
    for number, agent in enumerate(agent for agent in agents if agent not in LOOKS):
        best = int(nearest.argmax())
        dashes = _least_alike(free[best], places, lines)
        looks[agent] = Look(*colours[best], dashes, MARKERS[number % len(MARKERS)])
        places.append(free[best])
        lines.append(dashes)
        nearest = np.minimum(nearest, _apart(free, free[best]))
        if not nearest.any():
            nearest = np.ones(len(free))  # every colour is taken: once more through them
    return {agent: looks[agent] for agent in agents}


def _least_alike(place: np.ndarray, places: list[np.ndarray], lines: list[tuple[float, ...]]) -> tuple[float, ...]:
    """The kind of line whose owners' colours are furthest from this one."""
    apart = _apart(np.array(places), place)
    return max(DASHES, key=lambda dashes: min(apart[[line == dashes for line in lines]], default=np.inf))


def place_of(look: Look) -> np.ndarray:
    """Where a look's two colours are to each kind of eye, (2 grounds x 4 kinds x 3)."""
    return np.stack([seen(look.colour), seen(look.dark)])


def _apart(places: np.ndarray, place: np.ndarray) -> np.ndarray:
    """How far each of the places is from one, to the eyes and on the ground where they are most alike."""
    distance = np.linalg.norm(places - place, axis=-1)
    return np.minimum(BLIND * distance[..., :3].min(axis=(-2, -1)), distance[..., 3].min(axis=-1))


@cache
def _candidates() -> tuple[list[tuple[str, str]], np.ndarray]:
    """Colours that can be told from either ground, each with its shade on the dark one, and their places."""
    grid = product(np.arange(36) / 36, (0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (0.3, 0.6, 0.95))  # hue, lightness, saturation
    made = [colour_of(np.array(colorsys.hls_to_rgb(*place))) for place in grid]
    pairs = [(colour, lifted(colour)) for colour in made if contrast(colour, LIGHT_GROUND) >= VISIBLE]
    return pairs, np.array([np.stack([seen(light), seen(dark)]) for light, dark in pairs])
