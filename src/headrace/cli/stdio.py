"""Standard streams that can be written whatever the program was started with."""

from __future__ import annotations

import os
import sys


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
