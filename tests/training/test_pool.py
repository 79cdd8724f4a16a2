"""Environments in worker processes: what they answer in turn, how they are saved, and how they fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.envs.base import TimeStep
from headrace.envs.registry import environment
from headrace.errors import BadSetting
from headrace.training.pool import Pool, even

pytest.importorskip("gymnasium")

SEEDS = [3, 4, 5]


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Three poles in two workers, as two parts: rows 0 and 1, or 0 alone, and the rest."""
    pool = Pool([environment("gym/CartPole-v1")] * len(SEEDS), workers=2)
    yield pool
    pool.close()


def step(pool: Pool, actions: Any, number: int) -> TimeStep:
    """Both parts at once, waited for in the other order."""
    for part, rows in enumerate(pool.parts):
        pool.start(part, np.asarray(actions)[rows], number)
    for part in reversed(range(len(pool.parts))):
        pool.wait(part)
    answers = [pool.answer(part).timestep() for part in range(len(pool.parts))]
    return TimeStep(*(np.concatenate(many) for many in zip(*answers, strict=True)))


def test_each_row_is_the_environment_alone(pool: Pool) -> None:
    alone = [environment("gym/CartPole-v1").host() for _ in SEEDS]
    firsts = [env.reset(seed) for env, seed in zip(alone, SEEDS, strict=True)]
    np.testing.assert_array_equal(pool.reset(SEEDS), firsts)
    for number in range(1, 61):  # long enough for poles that are only pushed right to fall
        together = step(pool, [1, 1, 1], number)
        for row, env in enumerate(alone):
            for many, one in zip(together, env.step(1), strict=True):
                np.testing.assert_array_equal(many[row], np.asarray(one, many.dtype))


@pytest.mark.long
def test_rows_in_boxes_take_their_own_numbers() -> None:
    env = environment("gym/Pendulum-v1")
    pool, alone = Pool([env, env], workers=1), [env.host(), env.host()]
    try:
        np.testing.assert_array_equal(pool.reset([0, 1]), [game.reset(seed) for seed, game in enumerate(alone)])
        for number, actions in enumerate(np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2, 1), start=1):
            together = step(pool, actions, number)
            for row, game in enumerate(alone):
                np.testing.assert_array_equal(together.obs[row], game.step(actions[row]).obs)
    finally:
        pool.close()


def test_what_was_saved_goes_on_alike(pool: Pool) -> None:
    pool.reset(SEEDS)
    step(pool, [1, 1, 1], 1)
    saved = pool.save()
    then = [step(pool, [0, 0, 0], 2 + i).obs for i in range(3)]
    pool.restore(SEEDS, saved)
    again = [step(pool, [0, 0, 0], 2 + i).obs for i in range(3)]
    np.testing.assert_array_equal(then, again)


def test_an_environment_that_raises_fails_its_row_alone(pool: Pool) -> None:
    pool.reset(SEEDS)
    before = pool.shared.successor[1].copy()
    for number in (7, 8):
        found = step(pool, [0, 9, 0], number)
    assert list(pool.faults) == [1]
    assert "CartPole" in str(pool.faults[1])
    assert "step 7" in str(pool.faults[1])
    assert (found.reward.tolist(), found.last.tolist()) == ([1, 0, 1], [False] * 3)
    np.testing.assert_array_equal(pool.shared.successor[1], before)
    assert [saved is None for saved in pool.save()] == [False, True, False]


def test_a_worker_that_was_killed_fails_its_rows_alone(pool: Pool) -> None:
    pool.reset(SEEDS)
    victim = pool._processes[0]
    victim.kill()
    victim.join()
    for number in (1, 2):
        found = step(pool, [0, 0, 0], number)
    assert sorted(pool.faults) == [0, 2]
    assert "died" in str(pool.faults[2])
    assert found.reward.tolist() == [0, 1, 0]
    assert [saved is None for saved in pool.save()] == [True, False, True]


def test_frames_of_two_shapes_do_not_share_a_pool() -> None:
    with pytest.raises(BadSetting, match=r"CartPole.*Acrobot|Acrobot.*CartPole"):
        Pool([environment("gym/CartPole-v1"), environment("gym/Acrobot-v1")])


@pytest.mark.parametrize(
    ("rows", "cores", "workers"), [(1, 1, 1), (3, 1, 1), (3, 2, 2), (4, 3, 2), (9, 16, 9), (16, 16, 8), (32, 16, 11)]
)
def test_workers_are_as_many_as_make_a_turn_short(rows: int, cores: int, workers: int) -> None:
    assert even(rows, cores) == workers
