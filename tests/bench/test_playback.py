"""Playing back: both forms say the same, and engines learn from it as from any environment."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import VARIANTS
from headrace.bench.playback import EPISODE, SPECS, CompiledPlayback, HostPlayback
from headrace.engines.jax.engine import ReferenceEngine


@pytest.mark.parametrize("suite", SPECS)
def test_both_forms_play_back_the_same(suite: str) -> None:
    host, compiled = HostPlayback(SPECS[suite]), CompiledPlayback(SPECS[suite])
    state, first = compiled.init(None)
    assert np.array_equal(first, host.reset(0))
    assert first.shape == SPECS[suite].frame_shape
    ends = 0
    for _ in range(EPISODE + 2):
        state, theirs = compiled.step(state, 0, None)
        ours = host.step(0)
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
        ends += ours.last
    assert ends == 1


def test_it_continues_where_it_was_saved() -> None:
    one, other = HostPlayback(SPECS["minatar"]), HostPlayback(SPECS["minatar"])
    one.reset(0)
    for _ in range(7):
        one.step(0)
    other.restore(one.save())
    assert np.array_equal(one.step(0).obs, other.step(0).obs)
    assert one.render().shape == (10, 10, 3)


def test_an_engine_learns_from_it() -> None:
    env = HostPlayback(SPECS["minatar"])
    engine = ReferenceEngine(VARIANTS["strq"], env.spec, seed=0, steps=100)
    engine.begin(env.reset(0))
    for _ in range(5):
        engine.learn(env.step(engine.action))
    assert engine.step == 5
    assert engine.trouble() is None
