"""Shrinking an image by area: every pixel of the result is the mean of the rectangle that it covers."""

from __future__ import annotations

import numpy as np

from headrace.envs.atari.pixels import shrink


class Shrink:
    """uint8 images of one size made smaller. The last result is kept, and only what changed is worked out anew."""

    def __init__(self, size: tuple[int, int], to: tuple[int, int]) -> None:
        self._covers = (*covers(size[0], to[0]), *covers(size[1], to[1]))
        self._small = np.zeros(to, np.uint8)

    def __call__(self, image: np.ndarray, changed: np.ndarray) -> np.ndarray:
        """The image made smaller, given which of its rows may differ from the last image's: at first, all of them."""
        shrink(image, changed, *self._covers, self._small)
        return self._small.copy()


def covers(length: int, to: int) -> tuple[np.ndarray, np.ndarray]:
    """Which old pixels every new one covers: the first, and how much of it and of the next ones. Whole numbers.

    An old pixel is `to` units long and a new one `length` units, to which the shares of each add up. What counts places
    has no sign: compiled code would look whether it is to count them from the end.
    """
    new = np.arange(to)
    most = min(length, -(-length // to) + 1)  # old pixels that a new one touches
    first = np.minimum(new * length // to, length - most)
    old = first + np.arange(most)[:, None]
    covered = np.minimum((old + 1) * to, (new + 1) * length) - np.maximum(old * to, new * length)
    return first.astype(np.uint32), np.maximum(covered, 0).astype(np.int32)
