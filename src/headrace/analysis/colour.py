"""Colours as eyes see them: where each lies to every kind of eye, and how well it stands out from its ground."""

from __future__ import annotations

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
