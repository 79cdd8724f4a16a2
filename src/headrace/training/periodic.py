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
from headrace.runs.folder import EVALUATED, RunWriter
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

    def __init__(self, run: Run, folder: RunWriter, wanted: Evaluations) -> None:
        self._run, self._folder, self._wanted = run, folder, wanted
        folder.keep_evaluations()
        self._env: Any = None

    def at(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Plays the episodes; adds a row, and keeps the arrays where no earlier mean was as high."""
        returns = self._returns(arrays)
        found = returns.mean(), returns.std(), returns.min(), returns.max(), len(returns)
        if found[0] > max(self._folder.evaluations()["mean"], default=-np.inf):
            self._keep(step, arrays)
        names = (name for name, _ in EVALUATED)
        self._folder.append_evaluation(dict(zip(names, (step, *found), strict=True)))

    def _returns(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        if self._env is None:
            self._env = host_of(self._run)
        policy = policy_of(self._run.agent, self._env.spec, arrays, eps=EPSILON, seed=SEED)
        episodes = played(self._env, policy, SEED, self._wanted.episodes, MAX_STEPS)
        return np.array([episode.episode_return for episode, _ in episodes])

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
