"""A user's callbacks. One that returns True saves and stops the run, as Ctrl-C does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.engines.base import EpisodeResult
from headrace.errors import BadSetting, HeadraceError, raised
from headrace.part import imported
from headrace.training.run import Run


class Now(NamedTuple):
    """Where a run stands when a callback is called."""

    run: Run
    path: Path  # its folder
    step: int
    arrays: Callable[[], dict[str, np.ndarray]]  # the stream as a checkpoint would keep it, `stream/agent/params/...`


class Callbacks(NamedTuple):
    """What is called after a step, an episode, and at a log point (every 1,000 steps, with the row of metrics)."""

    on_step: Callable[[Now], Any] | None = None
    on_episode: Callable[[Now, EpisodeResult], Any] | None = None
    on_log: Callable[[Now, Mapping[str, float]], Any] | None = None


def callbacks_of(module: str) -> Callbacks:
    """The functions `on_step`, `on_episode` and `on_log` of a module, those that it has."""
    found = imported(module)
    callbacks = Callbacks(*(getattr(found, name, None) for name in Callbacks._fields))
    if not any(callbacks):
        raise BadSetting(f"{module} has no function named {', '.join(Callbacks._fields[:2])} or on_log")
    return callbacks


class Called:
    """The callbacks of one run, and which of them has stopped it."""

    def __init__(self, callbacks: Callbacks, run: Run, path: Path, arrays: Callable[[], dict[str, np.ndarray]]) -> None:
        self._callbacks, self._run, self._path, self._arrays = callbacks, run, path, arrays
        self.stopped = ""  # why, in words

    def on_step(self, step: int) -> None:
        self._call("on_step", step)

    def on_episode(self, step: int, episode: EpisodeResult) -> None:
        self._call("on_episode", step, episode)

    def on_log(self, step: int, row: Mapping[str, float]) -> None:
        self._call("on_log", step, dict(row))

    def _call(self, name: str, step: int, *more: Any) -> None:
        function = getattr(self._callbacks, name)
        if function is None:
            return
        try:
            answer = function(Now(self._run, self._path, step, self._arrays), *more)
        except HeadraceError:
            raise
        except Exception as error:
            raise HeadraceError(f"the callback {name} raised {raised(error, f' at step {step:,}')}") from error
        if answer is True:
            self.stopped = self.stopped or f"{name} returned True at step {step:,}"
