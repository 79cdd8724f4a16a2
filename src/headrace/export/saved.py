"""What is exported: the agent of a run, as its newest good checkpoint has it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from headrace.agents import name_of
from headrace.envs.base import EnvSpec
from headrace.training.evaluation import newest_checkpoint
from headrace.training.run import Run, run_of


class Saved(NamedTuple):
    """An agent at a step of its run."""

    run: Run
    spec: EnvSpec
    step: int
    arrays: dict[str, np.ndarray]
    notices: list[str]  # checkpoints that could not be used

    @property
    def title(self) -> str:
        return f"{name_of(self.run.agent)} on {self.run.env.label}, seed {self.run.seed}, step {self.step:,}"


def read(path: str | Path) -> Saved:
    folder, checkpoint = newest_checkpoint(path)
    run = run_of(folder.identity)
    spec = run.env.compiled().spec if run.form == "compiled" else run.env.host().spec
    return Saved(run, spec, checkpoint.step, checkpoint.arrays, folder.notices)
