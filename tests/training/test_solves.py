"""The actor-critic solves three classic tasks, by the bounds that Gymnasium gives them where it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.runs.folder import RunFolder
from headrace.training.single import train

pytest.importorskip("gymnasium")


# Pendulum has none: hanging costs some 1,200 an episode, swinging up and standing still 0 to 400 by where it begins.
@pytest.mark.long
@pytest.mark.parametrize(("env", "bound"), [("CartPole-v1", 475), ("Acrobot-v1", -100), ("Pendulum-v1", -250)])
def test_the_actor_critic_solves_it_within_200_000_steps(env: str, bound: float, tmp_path: Path) -> None:
    """The mean return of some hundred episodes in a row, while it learns and draws its actions."""
    done = train("ac", f"gym/{env}", steps=200_000, seed=0, out=tmp_path)
    returns = RunFolder.read(done.path).episodes()["return"]
    assert np.convolve(returns, np.ones(100) / 100, "valid").max() >= bound
