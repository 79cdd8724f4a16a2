"""What an agent sees of a console: the brighter of its last two frames, grey and small."""

from __future__ import annotations

import numpy as np
from ale_py import ALEInterface

from headrace.envs.atari.pixels import UNKNOWN, Shrink, renew


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
