"""The progress of a run: one line that renews itself on a terminal, nothing elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from headrace.agents import agent_named, nearest_name

RENEW_SECONDS = 0.2
SAY_SECONDS = 1.0


class Progress:
    """What training tells while it goes on. This one shows nothing but notices, which go to standard error."""

    def say(self, what: str) -> None: ...

    def notice(self, what: str) -> None:
        tell(sys.stderr, f"headrace: {what}\n")

    def metrics(self, means: dict[str, float]) -> None: ...

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None: ...

    def close(self) -> None: ...


class Line(Progress):
    """One line on a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self._means: dict[str, float] = {}
        self._shown_at = 0.0
        self._length = 0  # of the line that stands there
        self._saying: threading.Event | None = None

    def say(self, what: str) -> None:
        """Shows it with the seconds that it takes, until something else is shown."""
        self._quiet()
        done = self._saying = threading.Event()
        began = time.monotonic()
        self._write(f"{what} ...")

        def go_on() -> None:
            while not done.wait(SAY_SECONDS):
                self._write(f"{what} ... {clock(time.monotonic() - began)}")

        threading.Thread(target=go_on, daemon=True).start()

    def _quiet(self) -> None:
        if self._saying:
            self._saying.set()

    def notice(self, what: str) -> None:
        self._quiet()
        self._write("")
        tell(self.stream, f"headrace: {what}\n")

    def metrics(self, means: dict[str, float]) -> None:
        self._means = means

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        now = time.monotonic()
        if now - self._shown_at < RENEW_SECONDS and step < run.steps:
            return
        self._shown_at = now
        self._quiet()
        self._write(line(run, step, rate, mean_return, self._means, width_of(self.stream)))

    def close(self) -> None:
        self._quiet()
        self._write("")

    def _write(self, text: str) -> None:
        """In place of the line before, which a terminal that has become narrower shows as several."""
        width = width_of(self.stream)
        above = max(0, self._length - 1) // (width + 1)
        self._length = len(text[:width])
        tell(self.stream, (f"\x1b[{above}A\r\x1b[J" if above else "\r\x1b[K") + text[:width])


def tell(stream: IO[str], text: str) -> None:
    """A terminal that was closed, or a reader that has gone, does not end a run."""
    with suppress(OSError):
        stream.write(text)
        stream.flush()


def width_of(stream: IO[str]) -> int:
    """Columns that can be written without the terminal's starting a new line."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return (columns or shutil.get_terminal_size().columns) - 1


def for_terminal(quiet: bool = False) -> Progress:
    """A live line where standard error is a terminal and nobody asked for quiet."""
    return Progress() if quiet or not sys.stderr.isatty() else Line(sys.stderr)


def line(run: Any, step: int, rate: float, mean_return: float, means: dict[str, float], width: int) -> str:
    """As much of a run's state as fits into `width`: how far, how fast, how well, its losses; then which run it is."""
    words = [
        f"{short_steps(step)}/{short_steps(run.steps)} {100 * step // run.steps}%",
        f"{rate:,.0f} steps/s" if rate > 0 else "- steps/s",
        f"{clock((run.steps - step) / rate)} left" if rate > 0 else "",
        f"return {_number(mean_return)}",
    ]
    words = _extended(words, _LOSSES, means, width)
    nearest = nearest_name(run.agent)
    name = nearest if run.agent == agent_named(nearest) else f"{nearest}*"
    titles = (f"{name} {run.env.name} seed {run.seed}", f"{name} {run.env.name}", name, "")
    titled = next([title, *words] for title in titles if _fits([title, *words], width) or not title)
    return _joined(_extended(titled, (("q", "q"),), means, width))


_LOSSES = (("epsilon", "eps"), ("td_error", "td"), ("aux_loss", "aux"))


def _extended(words: list[str], more: Sequence[tuple[str, str]], means: dict[str, float], width: int) -> list[str]:
    """The words and, of those quantities that are known, each that still fits."""
    for key, label in more:
        if key in means and _fits(longer := [*words, f"{label} {_number(means[key])}"], width):
            words = longer
    return words


def _joined(words: list[str]) -> str:
    return "  ".join(word for word in words if word)


def _fits(words: list[str], width: int) -> bool:
    return len(_joined(words)) <= width


def short_steps(steps: int) -> str:
    """950, 24.5k, 245k, 1.23M, 5M: three digits, never rounded up."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if steps >= unit:
            fine = 10 ** max(3 - len(str(steps // unit)), 0)
            return f"{steps * fine // unit / fine:g}{letter}"
    return str(steps)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
