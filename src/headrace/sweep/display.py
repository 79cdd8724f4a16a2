"""Shows a sweep: live lines on a terminal, elsewhere a line now and then, and a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import IO

from headrace.agents import name_of
from headrace.errors import counted
from headrace.sweep.status import Standing, counts, seconds_left, steps_per_second
from headrace.training.progress import clock, short_steps, tell, width_of

RENEW_SECONDS = 0.25
LINE_SECONDS = 20.0
SHOWN_RUNS = 8


class Display:
    """What a sweep shows while it goes on. This one shows nothing but notices, which go to standard error."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self._shown_at = time.monotonic()

    def show(self, found: Sequence[Standing]) -> None: ...

    def notice(self, text: str) -> None:
        tell(self.stream, f"headrace: {text}\n")

    def close(self) -> None: ...


class Lines(Display):
    """Without a terminal: a line now and then."""

    def show(self, found: Sequence[Standing]) -> None:
        now = time.monotonic()
        if now - self._shown_at >= LINE_SECONDS:
            self._shown_at = now
            preparing = sum(map(_prepares, found))
            more = f"  ({preparing} preparing: what is new is compiled first)" if preparing else ""
            tell(self.stream, f"headrace: {summary(found)}{more}\n")


class Live(Display):
    """Live lines at the bottom of a terminal."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        super().__init__(stream)
        self._drawn, self._shown_at = 0, 0.0

    def show(self, found: Sequence[Standing]) -> None:
        now = time.monotonic()
        if now - self._shown_at >= RENEW_SECONDS:
            self._shown_at = now
            self._draw(lines(found, width_of(self.stream)))

    def notice(self, text: str) -> None:
        self._draw([])
        super().notice(text)

    def close(self) -> None:
        self._draw([])

    def _draw(self, wanted: list[str]) -> None:
        back = f"\x1b[{self._drawn}F" if self._drawn else "\r"
        tell(self.stream, back + "\x1b[J" + "".join(line + "\n" for line in wanted))
        self._drawn = len(wanted)


def for_terminal(quiet: bool = False) -> Display:
    """Live lines if standard error is a terminal, else a line now and then; neither if quiet."""
    return Display() if quiet else Live() if sys.stderr.isatty() else Lines()


def lines(found: Sequence[Standing], width: int) -> list[str]:
    """The summary, then a line for each running run."""
    running = [s for s in found if s.state == "running"]
    more = len(running) - SHOWN_RUNS
    rows = [summary(found), *(f"  {_progress(s)}" for s in running[:SHOWN_RUNS])]
    return [row[:width] for row in (*rows, *([f"  and {more} more"] if more > 0 else []))]


def summary(found: Sequence[Standing]) -> str:
    number = counts(found)
    speed, left = steps_per_second(found), seconds_left(found)
    words = [
        f"{number.done}/{len(found)} done",
        *(f"{n} {state}" for state, n in zip(number._fields[1:], number[1:], strict=True) if n),
        f"{speed:,.0f} steps/s" if speed else "",
        f"{clock(left)} to go" if left is not None else "",
    ]
    return "  ".join(word for word in words if word)


def _prepares(s: Standing) -> bool:
    return s.state == "running" and s.step == 0 and not s.rate > 0


def _progress(s: Standing) -> str:
    """Progress and speed, then the run; the longest word last because it may be cut."""
    run = s.run
    where = f"{short_steps(s.step)}/{short_steps(run.steps)} {100 * s.step // run.steps}%"
    speed = f"{s.rate:,.0f} steps/s" if s.rate > 0 else "preparing" if _prepares(s) else ""
    return f"{where:>14}  {speed:>15}  {run.env.name} seed {run.seed}  {name_of(run.agent)}"


def table(found: Sequence[Standing]) -> str:
    """A row for each agent and environment, over its seeds; below, the runs that failed or diverged."""
    cells: dict[tuple[str, str, int], list[Standing]] = {}
    for s in found:
        cells.setdefault((name_of(s.run.agent), s.run.env.label, s.run.steps), []).append(s)
    rows = [("agent", "environment", "steps", "done", "score"), *(_row(*key, seeds) for key, seeds in cells.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    troubles = [f"{s.state}: {s.run.name}{f': {s.cause}' if s.cause else ''}" for s in found if s.state in TROUBLE]
    return "\n".join([*text, *troubles, summary(found)])


TROUBLE = ("failed", "diverged")


def _row(agent: str, env: str, steps: int, seeds: Sequence[Standing]) -> tuple[str, ...]:
    """The score is the mean over finished seeds, with their standard deviation where there are several."""
    done = [s for s in seeds if s.state == "done"]
    scores = [s.score.mean for s in done if s.score]
    spread = f" ± {pstdev(scores):.3g}" if len(scores) > 1 else ""
    score = f"{fmean(scores):.4g}{spread}" if scores else "-"
    share = sum(s.step for s in seeds) / (steps * len(seeds))
    far = f" ({share:.0%} of the steps)" if len(done) < len(seeds) else ""
    return agent, env, short_steps(steps), f"{len(done)} of {counted(len(seeds), 'seed')}{far}", score
