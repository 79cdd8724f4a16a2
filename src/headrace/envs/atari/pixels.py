"""What an agent sees of a console: the brighter of its last two frames, grey, and shrunk by area.

The C library works on those rows alone that changed, as most of a screen stays from one step to the next. Without it
NumPy does the same, more slowly.
"""

from __future__ import annotations

import ctypes

import numpy as np
from ale_py import ALEInterface

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


class Shrink:
    """Shrinks uint8 images of one size by area: each new pixel is the mean of the rectangle that it covers.

    The last result is kept, and only rows that cover a changed one are made anew. Sums of whole numbers are exact; the
    only rounding is to the nearest grey value, halves to the even one.
    """

    def __init__(self, size: tuple[int, int], to: tuple[int, int]) -> None:
        self._down, self._right = covers(size[0], to[0]), covers(size[1], to[1])
        self._small = np.zeros(to, np.uint8)

    def __call__(self, image: np.ndarray, changed: np.ndarray) -> np.ndarray:
        """The image made smaller, given which of its rows may differ from the last image's: at first, all of them."""
        if library_path():
            down, right = (Covers(a.ctypes.data, b.ctypes.data, *b.shape) for a, b in (self._down, self._right))
            pointers = [ctypes.c_void_p(a.ctypes.data) for a in (image, changed)]
            done = library().hr_shrink_screen(
                *pointers, ctypes.byref(down), ctypes.byref(right), *image.shape,
                ctypes.c_void_p(self._small.ctypes.data),
            )  # fmt: skip
            assert done, f"a screen of {image.shape[1]} columns is too wide"
        else:
            along = _shared_out(_shared_out(image.astype(np.int32), *self._down).T, *self._right).T
            self._small[:] = np.rint(along.astype(np.float32) / np.float32(image.size)).astype(np.uint8)
        return self._small.copy()


def _shared_out(rows: np.ndarray, first: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The rows that each new one covers, by their shares in it."""
    return sum(share[:, None] * rows[first + i] for i, share in enumerate(shares))


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


class Picture:
    """Two frames of the emulator, of which only rows that changed are worked on.

    The emulator gives colours far faster than greys, but not which grey a colour has: that is learnt from its own grey
    picture, at the first frame that has the colour. What is kept is compared with what the emulator shows and with
    nothing else, so the result depends on the two frames alone.
    """

    def __init__(self, emulator: ALEInterface, to: tuple[int, int]) -> None:
        self._emulator = emulator
        size = emulator.getScreenDims()
        self._screen, self._brighter = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        self._seen, self._grey = np.zeros((2, *size), np.uint8), np.zeros((2, *size), np.uint8)
        self._greys = np.full(256, UNKNOWN, np.int32)
        self._changed = np.ones(size[0], np.bool_)  # rows, since they were last shrunk
        self._shrink = Shrink(size, to)
        self._slots = [self._slot(0), self._slot(1)]
        self._begin()

    def look(self, slot: int) -> None:
        """Puts what the emulator shows into one of the two slots."""
        self._emulator.getScreen(self._screen)
        while not renew(*self._slots[slot]):
            self._learn()

    def look_alone(self) -> None:
        """Puts what the emulator shows into both."""
        self.look(0)
        self.look(1)

    def small(self) -> np.ndarray:
        """The brighter of the two, pixel by pixel, shrunk: objects that flicker are drawn in every second frame."""
        small = self._shrink(self._brighter, self._changed)
        self._changed[:] = False
        return small

    def _slot(self, slot: int) -> tuple[np.ndarray, ...]:
        """What `renew` works on."""
        greys = self._grey[slot], self._grey[1 - slot], self._brighter
        return self._screen, self._seen[slot], *greys, self._greys, self._changed

    def _begin(self) -> None:
        self._emulator.getScreen(self._screen)
        self._seen[:], self._grey[:] = self._screen, self._learn()
        self._brighter[:] = self._grey[0]

    def _learn(self) -> np.ndarray:
        """The greys of all colours on the screen, which is returned in grey."""
        grey = self._emulator.getScreenGrayscale()
        self._greys[self._screen] = grey
        return grey
