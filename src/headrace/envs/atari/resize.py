"""Shrinking an image by area: every pixel of the result is the mean of the rectangle that it covers."""

from __future__ import annotations

from functools import cache
from math import gcd

import numpy as np


class Shrink:
    """uint8 images of one size made smaller.

    Sizes that share a divisor repeat a small pattern: 5 rows of 210 make 2 of 84, 40 columns of 160 make 21 of 84. So
    both directions are small matrix products. Their entries are whole numbers, hence the sums are exact in float32,
    and the only rounding is to the nearest grey value, halves to the even one.
    """

    def __init__(self, size: tuple[int, int], to: tuple[int, int]) -> None:
        self._rows, self._columns = shares(size[0], to[0]), shares(size[1], to[1]).T.copy()
        self._bands = (size[0] // self._rows.shape[1], self._rows.shape[1], size[1])
        self._area = np.float32(self._rows.shape[1] * self._columns.shape[0])
        self.to = to

    def __call__(self, image: np.ndarray) -> np.ndarray:
        bands = image.reshape(self._bands).astype(np.float32)
        sums = np.matmul(self._rows, bands).reshape(-1, self._columns.shape[0]) @ self._columns
        return np.rint(sums / self._area).astype(np.uint8).reshape(self.to)


@cache
def shares(length: int, to: int) -> np.ndarray:
    """How much of each old pixel every new one covers, for one period of the pattern: (new, old), whole numbers.

    An old pixel is `new` units long and a new one `old` units, so each row sums to `old`.
    """
    common = gcd(length, to)
    old, new = length // common, to // common
    i, j = np.arange(old), np.arange(new)[:, None]
    covered = np.minimum((i + 1) * new, (j + 1) * old) - np.maximum(i * new, j * old)
    return np.maximum(covered, 0).astype(np.float32)
