"""How agents look in every figure and on every page: one colour, line and marker each.

The hue says the family: dqn red to orange, strq green, qrc blue. What is added to the base agent makes the colour
lighter and breaks the line, so that variants of one family stay apart in grey too. The nine colours were chosen to be
as different as possible to normal, protan, deutan and tritan eyes at once. Agents beyond the nine have a colour of
their own that depends on their name alone.
"""

from __future__ import annotations

import colorsys
import hashlib
from typing import NamedTuple

INK, FAINT, EDGE = "#222222", "#DDDDDD", "#999999"
PAPER_INK = "#555555"  # the paper's own numbers, in every figure


class Look(NamedTuple):
    """`dashes` are lengths of ink and gap in line widths, empty for a solid line."""

    colour: str
    dashes: tuple[float, ...]
    marker: str  # as matplotlib names it


LOOKS: dict[str, Look] = {
    "dqn": Look("#942B11", (), "o"),
    "dqn+spr": Look("#E4AE59", (5, 1.5), "s"),
    "strq": Look("#095746", (), "o"),
    "strq+spr": Look("#09A589", (5, 1.5), "s"),
    "strq+spr+orth": Look("#3EDC99", (2, 1.2), "^"),
    "strq+spr+orth2": Look("#AEB90D", (6, 1.2, 1.2, 1.2), "D"),
    "qrc": Look("#091275", (), "o"),
    "qrc+spr": Look("#315DDB", (5, 1.5), "s"),
    "qrc+spr+orth": Look("#83B3E3", (2, 1.2), "^"),
}
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.5), (2, 1.2), (6, 1.2, 1.2, 1.2))
_MARKERS = "osD^vPX*"


def look_of(agent: str) -> Look:
    """The same for the same name, whatever else is drawn."""
    return LOOKS.get(agent) or _made_for(agent)


def _made_for(agent: str) -> Look:
    """Purples, reds and browns, which no variant of the paper has."""
    seed = hashlib.sha256(agent.encode()).digest()
    hue = (0.74 + 0.30 * seed[0] / 255) % 1.0
    rgb = colorsys.hls_to_rgb(hue, 0.30 + 0.35 * seed[1] / 255, 0.35 + 0.4 * seed[2] / 255)
    colour = "#" + "".join(f"{round(255 * channel):02X}" for channel in rgb)
    return Look(colour, _DASHES[seed[3] % len(_DASHES)], _MARKERS[seed[4] % len(_MARKERS)])
