"""What is done to single pixels, compiled: colours made grey, the brighter of two frames, and shrinking by area.

Every function works on those rows alone that changed, as most of a screen stays from one step to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

UNKNOWN = -1  # in the table of greys: a colour that was not met yet; all others are not negative


def _compiled(function: Callable[..., Any]) -> Any:
    """Kept on disk, where there is a place to write."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(function)


@_compiled
def renew(
    words: np.ndarray, seen_words: np.ndarray, screen: np.ndarray, grey: np.ndarray, other: np.ndarray,
    brighter: np.ndarray, greys: np.ndarray, changed: np.ndarray,
) -> bool:  # fmt: skip
    """Makes `grey` and `brighter` what follows from the screen, in the rows that are not as last seen; marks them.

    Screens are compared eight pixels, one word, at a time. False where it met a colour that the table of greys lacks:
    that row and the next ones are then left to another call.
    """
    for y in range(screen.shape[0]):
        difference = np.uint64(0)
        for i in range(words.shape[1]):
            difference |= words[y, i] ^ seen_words[y, i]
        if difference == 0:
            continue
        bits = np.int32(0)
        for x in range(screen.shape[1]):
            value = greys[screen[y, x]]
            bits |= value
            grey[y, x] = value
        if bits < 0:
            return False
        for x in range(screen.shape[1]):
            brighter[y, x] = max(grey[y, x], other[y, x])
        for i in range(words.shape[1]):
            seen_words[y, i] = words[y, i]
        changed[y] = True
    return True


@_compiled
def shrink(
    image: np.ndarray, changed: np.ndarray, tops: np.ndarray, heights: np.ndarray, lefts: np.ndarray,
    widths: np.ndarray, small: np.ndarray,
) -> None:  # fmt: skip
    """Makes those rows of the small image anew that cover a changed one, by `covers` of both directions.

    Sums of whole numbers are exact; the only rounding is to the nearest grey value, halves to the even one.
    """
    area = np.float32(image.size)
    across, along = np.empty(image.shape[1], np.int32), np.empty(small.shape[1], np.int32)
    for j in range(small.shape[0]):
        touched = False
        for i in range(heights.shape[0]):
            touched |= changed[tops[j] + i]
        if not touched:
            continue
        across[:] = 0
        for i in range(heights.shape[0]):
            height, y = heights[i, j], tops[j] + i
            for x in range(image.shape[1]):
                across[x] += height * np.int32(image[y, x])
        along[:] = 0
        for i in range(widths.shape[0]):
            for x in range(small.shape[1]):
                along[x] += widths[i, x] * across[lefts[x] + i]
        for x in range(small.shape[1]):
            small[j, x] = np.uint8(np.rint(np.float32(along[x]) / area))
