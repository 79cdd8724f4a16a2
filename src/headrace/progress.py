"""What a person sees while a run goes on: one line that renews itself on a terminal, nothing elsewhere."""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import IO, Any, Protocol

from headrace.agents import name_of
from headrace.curve import step_label

RENEW_SECONDS = 0.2


class Progress(Protocol):
    def say(self, what: str) -> None: ...
    def notice(self, what: str) -> None: ...
    def metrics(self, means: dict[str, float]) -> None: ...
    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Shows nothing but notices, which go to standard error."""

    def say(self, what: str) -> None: ...

    def notice(self, what: str) -> None:
        print(f"headrace: {what}", file=sys.stderr)

    def metrics(self, means: dict[str, float]) -> None: ...

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None: ...

    def close(self) -> None: ...


class Line:
    """One line on a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self._means: dict[str, float] = {}
        self._shown_at = 0.0

    def say(self, what: str) -> None:
        self._write(what + " ...")

    def notice(self, what: str) -> None:
        self._write("")
        print(f"headrace: {what}", file=self.stream, flush=True)

    def metrics(self, means: dict[str, float]) -> None:
        self._means = means

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        now = time.monotonic()
        if now - self._shown_at < RENEW_SECONDS and step < run.steps:
            return
        self._shown_at = now
        self._write(line(run, step, rate, mean_return, self._means))

    def close(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self.stream.write("\r\x1b[K" + text[:width])
        self.stream.flush()


def for_terminal(quiet: bool = False) -> Progress:
    """A live line where standard error is a terminal and nobody asked for quiet."""
    return Silent() if quiet or not sys.stderr.isatty() else Line(sys.stderr)


def line(run: Any, step: int, rate: float, mean_return: float, means: dict[str, float]) -> str:
    """The whole state of a run in one line, the most wanted first."""
    words = [
        f"{name_of(run.agent)} {run.env.name} seed {run.seed}",
        f"{step_label(step)}/{step_label(run.steps)} ({step / run.steps:.0%})",
        f"{rate:,.0f} steps/s" if rate > 0 else "compiling",
        f"{_clock((run.steps - step) / rate)} left" if rate > 0 else "",
        f"return {_number(mean_return)}",
        *(f"{label} {_number(means[key])}" for key, label in _SHOWN if key in means),
    ]
    return "  ".join(word for word in words if word)


_SHOWN = (("epsilon", "eps"), ("td_error", "|td|"), ("q", "q"), ("aux_loss", "aux"))


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
