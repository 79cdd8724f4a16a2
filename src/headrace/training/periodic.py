"""Evaluation while a run is trained: from time to time a frozen copy of the agent plays whole episodes.

    <run>/evaluations.csv   step,mean,std,min,max,episodes      returns of the copy
    <run>/best/             the checkpoint with the highest mean

The copy plays in an environment of its own, with the same seeds each time: the run does not notice it, and a run that
is stopped and continued has the same rows.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import BadSetting
from headrace.runs import checkpoints
from headrace.runs.checkpoints import Checkpoint, Saved
from headrace.runs.files import remove_temporaries, storage_errors, write_atomically
from headrace.runs.folder import EVALUATION_COLUMNS, EVALUATIONS, RunFolder
from headrace.training.evaluation import BEST, host_of, played, policy_of
from headrace.training.run import Run, whole

EPSILON, SEED, MAX_STEPS = 0.01, 1_000_000, 27_000  # as `headrace eval` has them


class Evaluations(NamedTuple):
    """When a run is evaluated, beside its end, and by how many episodes."""

    every: int  # steps
    episodes: int = 10

    def due(self, step: int, total: int) -> bool:
        return step % self.every == 0 or step == total

    def limit(self, step: int) -> int:
        """Steps until the next evaluation."""
        return self.every - step % self.every


def evaluations(every: float | str | None, episodes: float | str = 10) -> Evaluations | None:
    """The evaluations that these numbers ask for; none where no interval is given."""
    count = whole("eval_episodes", episodes, 1, 1_000_000)
    return None if every is None else Evaluations(whole("eval_every", every, 1), count)


def require_second(run: Run) -> None:
    """An error where the run's environment is one object, which cannot also be the copy's."""
    given = run.env.given
    if hasattr(given, "step") and not isinstance(given, type):
        raise BadSetting(
            f"eval_every needs a second environment, and {run.env.name} is one object: give a function that makes it"
        )


class Evaluator:
    """Evaluates one run whenever it is told to."""

    def __init__(self, run: Run, folder: RunFolder, wanted: Evaluations) -> None:
        self._run, self._folder, self._wanted = run, folder, wanted
        self._env: Any = None

    def resume(self, step: int) -> None:
        """Forgets what was found after the step that the run continues from: it will be found again."""
        table = self._folder.evaluations()
        kept = table["step"] <= step
        if not kept.all():
            self._write([{name: column[i] for name, column in table.items()} for i in np.flatnonzero(kept)])

    def at(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Plays the episodes; adds a row, and keeps the arrays where no earlier mean was as high."""
        before = self._folder.evaluations()
        returns = self._returns(arrays)
        row = {
            "step": step,
            "mean": returns.mean(),
            "std": returns.std(),
            "min": returns.min(),
            "max": returns.max(),
            "episodes": len(returns),
        }
        rows = [{name: column[i] for name, column in before.items()} for i in np.flatnonzero(before["step"] < step)]
        if row["mean"] > max((r["mean"] for r in rows), default=-np.inf):
            self._keep(step, arrays)
        self._write([*rows, row])

    def _returns(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        if self._env is None:
            self._env = host_of(self._run)
        policy = policy_of(self._run.agent, self._env.spec, arrays, eps=EPSILON, seed=SEED)
        episodes = played(self._env, policy, SEED, self._wanted.episodes, MAX_STEPS)
        return np.array([episode.episode_return for episode, _ in episodes])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        lines = [",".join(_cell(kind, row[name]) for name, kind in EVALUATION_COLUMNS) for row in rows]
        text = "\n".join([",".join(name for name, _ in EVALUATION_COLUMNS), *lines, ""])
        write_atomically(self._folder.path / EVALUATIONS, text.encode())

    def _keep(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        folder = self._folder.path / BEST
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
            remove_temporaries(folder)
        kept = checkpoints.path_of(folder, step)
        write_atomically(kept, checkpoints.encode(self._folder.run_hash, Saved(Checkpoint(step, arrays, {}), {})))
        for other in checkpoints.newest_first(folder):
            if other != kept:
                with storage_errors(other):
                    os.unlink(other)


def _cell(kind: type, value: Any) -> str:
    return repr(kind(value))
