"""Environments in worker processes: what they answer, how they are saved, and how they fail."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from headrace.envs.registry import environment
from headrace.errors import EnvironmentFault
from headrace.training.pool import Pool

pytest.importorskip("gymnasium")

SEEDS = [3, 4, 5]


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Three poles in two workers."""
    pool = Pool([environment("gym/CartPole-v1")] * len(SEEDS), workers=2)
    yield pool
    pool.close()


def numbered(step: int) -> np.ndarray:
    return np.full(len(SEEDS), step)


def test_each_row_is_the_environment_alone(pool: Pool) -> None:
    alone = [environment("gym/CartPole-v1").host() for _ in SEEDS]
    firsts = [env.reset(seed) for env, seed in zip(alone, SEEDS, strict=True)]
    np.testing.assert_array_equal(pool.reset(SEEDS), firsts)
    for step in range(1, 61):  # long enough for poles that are only pushed right to fall
        together = pool.step(np.ones(len(SEEDS)), numbered(step))
        for row, env in enumerate(alone):
            for many, one in zip(together, env.step(1), strict=True):
                np.testing.assert_array_equal(many[row], np.asarray(one, many.dtype))


def test_what_was_saved_goes_on_alike(pool: Pool) -> None:
    pool.reset(SEEDS)
    pool.step(np.ones(len(SEEDS)), numbered(1))
    saved = pool.save()
    then = [pool.step(np.zeros(len(SEEDS)), numbered(2 + i)).obs.copy() for i in range(3)]
    pool.restore(SEEDS, saved)
    again = [pool.step(np.zeros(len(SEEDS)), numbered(2 + i)).obs.copy() for i in range(3)]
    np.testing.assert_array_equal(then, again)


def test_what_an_environment_raises_names_it_and_the_step(pool: Pool) -> None:
    pool.reset(SEEDS)
    with pytest.raises(EnvironmentFault, match=r"CartPole.*step 7"):
        pool.step(np.array([0, 9, 0]), numbered(7))


def test_a_worker_that_died_is_a_fault_of_the_environments(pool: Pool) -> None:
    pool.reset(SEEDS)
    pool._processes[1].kill()
    pool._processes[1].join()
    with pytest.raises(EnvironmentFault, match="died"):
        pool.step(np.zeros(len(SEEDS)), numbered(1))
