"""The engine as an object in somebody's loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.agents import agent_named
from headrace.engines.jax.compiled import BUFFER, CompiledStream
from headrace.engines.jax.engine import ReferenceEngine
from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.registry import environment
from headrace.errors import CheckpointDamaged, EnvironmentFault
from headrace.part import tweak
from tests.small_runs import GAME, SETTINGS, VARIANT, assert_same_arrays

AGENT = tweak(agent_named(VARIANT), *SETTINGS)
SPEC = EnvSpec("toy", (10, 10, 4), ("a", "b", "c"))


def picture(seed: int) -> np.ndarray:
    return np.random.RandomState(seed).rand(10, 10, 4).astype(np.float32)


def moment(seed: int, last: bool = False, **changes: Any) -> TimeStep:
    obs = picture(seed)
    step = TimeStep(picture(seed + 1000) if last else obs, obs, 0.5, last, False, last)
    return step._replace(**changes)


@pytest.fixture
def engine(programs: Path) -> ReferenceEngine:
    made = ReferenceEngine(AGENT, SPEC, seed=1, steps=1000)
    made.begin(picture(0))
    return made


def test_an_engine_counts_steps_and_episodes(engine: ReferenceEngine) -> None:
    heard = [engine.learn(moment(n, last=n % 4 == 0)) for n in range(1, 11)]
    assert engine.step == 10
    assert [tuple(episode) for episode in heard if episode] == [(4, 2.0, 4), (8, 2.0, 4)]
    assert engine.action in (0, 1, 2)


def test_a_report_is_the_mean_since_the_last_one(engine: ReferenceEngine) -> None:
    for n in range(1, 5):
        engine.learn(moment(n))
    first = engine.report()
    assert {"td_error", "q", "td_update_norm", "aux_update_norm", "aux_loss", "epsilon"} <= first.keys()
    assert first["aux_active"] == 0.75  # a horizon of 2 needs two transitions
    assert np.isnan(engine.report()["td_error"])


def test_save_restore_continue_equals_continue(engine: ReferenceEngine) -> None:
    for n in range(1, 8):
        engine.learn(moment(n, last=n == 5))
    saved = {name: array.copy() for name, array in engine.save().items()}
    other = ReferenceEngine(AGENT, SPEC, seed=1, steps=1000)
    other.restore(saved)
    for n in range(8, 20):
        assert engine.action == other.action
        assert engine.learn(moment(n, last=n == 15)) == other.learn(moment(n, last=n == 15))
    assert_same_arrays(engine.save(), other.save())
    np.testing.assert_equal(engine.report(), other.report())  # sight is NaN where nothing differs


def test_arrays_of_another_agent_are_refused(engine: ReferenceEngine) -> None:
    arrays = engine.save()
    wider = ReferenceEngine(tweak(AGENT, "network=Conv((8,),((3,3),),((2,2),),16)"), SPEC, seed=1, steps=1000)
    with pytest.raises(CheckpointDamaged, match=r"is float32\(.*\) in it, this agent needs float32"):
        wider.restore(arrays)
    arrays.pop("stream/agent/params/encoder/0/w")
    with pytest.raises(CheckpointDamaged, match="it has no array stream/agent/params/encoder/0/w"):
        engine.restore(arrays)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"successor": np.full((10, 10, 4), np.nan)}, "the successor that toy gave at step 2 has nan in it"),
        ({"obs": np.zeros((10, 9, 4))}, r"the observation that toy gave at step 2 has shape \(10, 9, 4\), not"),
        ({"reward": -np.inf}, "the reward that toy gave at step 2 has -inf in it"),
        ({"reward": "five"}, "the reward that toy gave at step 2 is no array of numbers"),
    ],
)
def test_nothing_is_learnt_from_what_makes_no_sense(
    changes: dict[str, Any], message: str, engine: ReferenceEngine
) -> None:
    engine.learn(moment(1))
    before = {name: array.copy() for name, array in engine.save().items()}
    with pytest.raises(EnvironmentFault, match=message):
        engine.learn(moment(2, **changes))
    assert_same_arrays(engine.save(), before)


def test_begin_comes_first() -> None:
    untouched = ReferenceEngine(AGENT, SPEC, seed=1, steps=1000)
    with pytest.raises(RuntimeError, match="begin"):
        _ = untouched.action
    with pytest.raises(EnvironmentFault, match=r"the first observation that toy gave at step 0 has shape \(3,\)"):
        untouched.begin(np.zeros(3))
    with pytest.raises(RuntimeError, match="begin"):
        CompiledStream(AGENT, environment(GAME).compiled(), seed=0, steps=10).run(1)


def test_a_compiled_stream_takes_no_more_steps_than_it_can_report(programs: Path) -> None:
    stream = CompiledStream(AGENT, environment(GAME).compiled(), seed=0, steps=10)
    stream.begin()
    for bad in (BUFFER + 1, -1):
        with pytest.raises(ValueError, match=f"0 to 1,000 steps, got {bad}"):
            stream.run(bad)
