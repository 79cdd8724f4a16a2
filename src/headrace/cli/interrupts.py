"""What the program does first: Ctrl-C ends it at any moment, with one line and without a traceback; streams are open.

Python raises KeyboardInterrupt wherever it happens to be. While a module is being imported, the module may catch it, or
code in C may drop it or make another error of it; in a finaliser it is dropped too. So here it waits for the end of
imports, and comes again where it was dropped.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # `typing` takes a while to load, and Ctrl-C is not heard before
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 130  # what a shell reports for a program stopped by Ctrl-C
PAUSE = 0.02  # seconds until it is tried again


def stopped() -> int:
    """Says that the program was stopped; what it exits with."""
    print("\nheadrace: stopped", file=sys.stderr)
    return INTERRUPTED


class CtrlC:
    """What the program does on Ctrl-C, as long as nothing else listens, as training does, which saves first."""

    def __init__(self) -> None:
        self._heard = False

    def listen(self) -> None:
        """Unless it is to be ignored, as a shell wants it of what runs in its background."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hear)
            signal.signal(signal.SIGALRM, self._try_again)
            sys.unraisablehook = self._dropped
            atexit.register(_ignore)  # the first registered is the last to run

    def end(self, status: int) -> None:
        """The command is done: nothing is left to be stopped but what Python does before it ends."""
        if signal.getsignal(signal.SIGINT) == self._hear:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGINT, lambda *_: os._exit(status))

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._heard:  # a second Ctrl-C
            os.write(2, b"\nheadrace: stopped\n")
            os._exit(INTERRUPTED)
        self._heard = True
        self._interrupt(frame)

    def _interrupt(self, frame: FrameType | None) -> None:
        if is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, PAUSE)
        else:
            raise KeyboardInterrupt

    def _try_again(self, number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) == self._hear:
            self._interrupt(frame)
        else:  # another handler was installed meanwhile
            signal.raise_signal(signal.SIGINT)

    def _dropped(self, unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, PAUSE)
        else:
            sys.__unraisablehook__(unraisable)


def _ignore() -> None:
    """Interpreter shutdown: ignore signals."""
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def is_importing(frame: FrameType | None) -> bool:
    """Whether Python is in the middle of loading a module there."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def secure() -> None:
    """Gives closed streams a place that takes everything, and writes letters that an encoding lacks as escapes."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:  # or a file of a run would be opened under its number
        os.set_inheritable(opened, True)
    os.close(opened)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if (stream := getattr(sys, name)) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - until the end
        else:
            stream.reconfigure(errors="backslashreplace")
