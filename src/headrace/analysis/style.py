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

from headrace.analysis.colour import LIGHT_GROUND, colour_of, contrast, lifted, seen

INK, FAINT, EDGE = "#222222", "#DDDDDD", "#999999"
PAPER_INK = "#555555"  # the paper's own numbers, in every figure


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
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.5), (1, 2), (9, 2, 2, 2, 2, 2), (6, 1.2, 1.2, 1.2), (2, 1.2))
MARKERS = "osD^vPX*"
VISIBLE = 2.2  # contrast with white that a colour has at least
BLIND = 3.0  # how much a difference counts to colour-blind eyes, which see fewer, against that to others


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
