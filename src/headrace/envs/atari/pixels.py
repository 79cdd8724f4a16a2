"""What is done to single pixels: colours made grey, the brighter of two frames, and shrinking by area.

The C library works on those rows alone that changed, as most of a screen stays from one step to the next. Without it
NumPy does the same, more slowly.
"""

from __future__ import annotations

import ctypes

import numpy as np

from headrace.learner import library, library_path

UNKNOWN = -1  # in the table of greys: a colour that was not met yet; all others are not negative


class Covers(ctypes.Structure):
    """`covers` of one direction, as the library reads them: `hr_covers`."""

    _fields_ = [
        ("first", ctypes.c_void_p), ("shares", ctypes.c_void_p), ("most", ctypes.c_int32), ("size", ctypes.c_int32),
    ]  # fmt: skip


def renew(
    screen: np.ndarray, seen: np.ndarray, grey: np.ndarray, other: np.ndarray, brighter: np.ndarray,
    greys: np.ndarray, changed: np.ndarray,
) -> bool:  # fmt: skip
    """Makes `grey` and `brighter` what follows from the screen, in the rows that are not as last seen; marks them.

    False where it met a colour that the table of greys lacks: that row, and more of them, are left to another call.
    """
    if library_path():
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (screen, seen, grey, other, brighter, greys, changed)]
        return bool(library().hr_renew_screen(*pointers, *screen.shape))
    rows = (screen != seen).any(axis=1)
    values = greys[screen[rows]]
    if (values < 0).any():
        return False
    grey[rows], seen[rows], changed[rows] = values, screen[rows], True
    brighter[rows] = np.maximum(grey[rows], other[rows])
    return True


def shrink(
    image: np.ndarray, changed: np.ndarray, tops: np.ndarray, heights: np.ndarray, lefts: np.ndarray,
    widths: np.ndarray, small: np.ndarray,
) -> None:  # fmt: skip
    """Makes those rows of the small image anew that cover a changed one, by `covers` of both directions.

    Sums of whole numbers are exact; the only rounding is to the nearest grey value, halves to the even one.
    """
    if library_path():
        down, right = (Covers(a.ctypes.data, b.ctypes.data, *b.shape) for a, b in ((tops, heights), (lefts, widths)))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (image, changed)]
        done = library().hr_shrink_screen(
            *pointers, ctypes.byref(down), ctypes.byref(right), *image.shape, ctypes.c_void_p(small.ctypes.data)
        )
        assert done, f"a screen of {image.shape[1]} columns is too wide"
        return
    across = _shared_out(image.astype(np.int32), tops, heights)
    along = _shared_out(across.T, lefts, widths).T
    small[:] = np.rint(along.astype(np.float32) / np.float32(image.size)).astype(np.uint8)


def _shared_out(rows: np.ndarray, first: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The rows that each new one covers, by their shares in it."""
    return sum(share[:, None] * rows[first + i] for i, share in enumerate(shares))
