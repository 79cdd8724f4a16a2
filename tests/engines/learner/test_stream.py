"""Learner and game in one loop in C: what they do one step at a time from Python, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import agent_named
from headrace.engines.base import HostStream
from headrace.engines.learner.engine import LearnerEngine
from headrace.engines.learner.stream import GameStream, learner_stream
from headrace.envs import make
from headrace.training.run import make_run
from tests.engines.learner.support import spec_of


def streams(game: str) -> tuple[HostStream, HostStream]:
    agent = agent_named("strq")
    env, other = make(f"minatar/{game}"), make(f"minatar/{game}")
    engine = LearnerEngine(agent, env.spec, seed=2, steps=1000)
    return HostStream(engine, env, 2), learner_stream(agent, other, seed=2, steps=1000)


@pytest.mark.parametrize("game", ["breakout", "seaquest"])
def test_it_takes_the_same_steps(game: str) -> None:
    one_by_one, together = streams(game)
    assert isinstance(together, GameStream)
    one_by_one.begin()
    together.begin()
    for n in (1, 0, 250, 149):
        assert together.run(n) == one_by_one.run(n)
        assert together.step == one_by_one.step
        (mine, my_game), (theirs, their_game) = together.save(), one_by_one.save()
        assert my_game == their_game
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)
    assert together.report() == pytest.approx(one_by_one.report(), nan_ok=True)


def test_a_run_on_minatar_takes_it_and_another_environment_does_not() -> None:
    assert isinstance(make_run("strq", "minatar/breakout", steps=100).stream(), GameStream)
    assert not isinstance(make_run("strq", "gym/CartPole-v1", steps=100).stream(), GameStream)


def test_a_stream_that_has_not_begun_says_so() -> None:
    _, together = streams("breakout")
    with pytest.raises(RuntimeError, match="call begin"):
        together.run(1)


def test_a_board_of_another_game_is_no_room_for_this_one() -> None:
    engine = LearnerEngine(agent_named("strq"), spec_of((10, 10, 10)), seed=0, steps=10)
    with pytest.raises(ValueError, match="minatar/breakout"):
        GameStream(engine, make("minatar/breakout"), 0)
