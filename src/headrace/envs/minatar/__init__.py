"""MinAtar's five games: what the compiled games and the original package have in common.

Nothing here needs JAX, so that the original can run on the host without it.
"""

from __future__ import annotations

import numpy as np

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
ABOUT = {
    "asterix": "move among enemies and gold that cross the board; gold is a point, an enemy the end",
    "breakout": "keep the ball in play with the paddle; each brick is a point",
    "freeway": "cross eight lanes of cars, as often as 2,500 steps allow; each crossing is a point",
    "seaquest": "a submarine shoots fish and submarines, and brings divers up before its oxygen is spent",
    "space_invaders": "shoot the aliens before they land or hit you; each is a point",
}
ACTION_NAMES = ("noop", "left", "up", "right", "down", "fire")
CELL = 16  # pixels along one side of a cell in a picture

_GROUND = (18, 20, 28)
_PALETTE = (
    (88, 196, 221),
    (236, 102, 92),
    (96, 104, 128),
    (244, 194, 84),
    (128, 200, 112),
    (190, 132, 220),
    (240, 150, 190),
    (90, 140, 235),
    (232, 232, 224),
    (250, 140, 60),
)


def check_settings(game: str, sticky: float) -> None:
    """Raises ValueError unless the game is one of the five and `sticky` is a probability."""
    if game not in GAMES:
        raise ValueError(f"unknown MinAtar game {game!r}; the games are {', '.join(GAMES)}")
    if not 0.0 <= sticky <= 1.0:
        raise ValueError(f"sticky is a probability and must lie in [0, 1], got {sticky}")


def render_board(observation: np.ndarray) -> np.ndarray:
    """The board as a uint8 RGB picture: one colour per channel, an earlier channel painted over a later one."""
    board = np.asarray(observation).astype(bool)
    colours = np.array((_GROUND, *_PALETTE), dtype=np.uint8)
    topmost = np.where(board.any(axis=-1), board.argmax(axis=-1) + 1, 0)
    return colours[topmost].repeat(CELL, axis=0).repeat(CELL, axis=1)
