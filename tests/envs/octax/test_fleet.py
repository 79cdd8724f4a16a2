"""Octax games inside a fleet: each stream as it is alone, and as it was before it was saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.engines.jax.compiled import CompiledStream
from headrace.engines.jax.fleet import Fleet
from headrace.envs.registry import environment
from headrace.runs.safetensors_io import dumps, loads
from tests.small_runs import assert_same_arrays

AGENT = tweak(agent_named("strq"), "network=Conv((4,), ((4, 8),), ((4, 8),), 8)")
STEPS = 60

pytestmark = pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")


def test_a_fleet_saved_in_mid_episode_goes_on_the_same(programs: Path) -> None:
    """Two streams whose episodes end at different steps, before the save and after it."""
    whole, resumed = (Fleet([AGENT] * 2, [environment("octax/deep").compiled()] * 2, [0, 1], 200) for _ in range(2))
    whole.begin()
    before, saved = whole.run(70).episodes(), [dumps(*one) for one in whole.save()]
    resumed.restore([loads(data) for data in saved])
    assert resumed.step == 70
    after = whole.run(STEPS).episodes()
    assert resumed.run(STEPS).episodes() == after
    for (ours, _), (theirs, _) in zip(resumed.save(), whole.save(), strict=True):
        assert_same_arrays(ours, theirs)
    for earlier, later in zip(before, after, strict=True):
        assert earlier[-1].step < 70 < later[0].step
        assert later[0].length == later[0].step - earlier[-1].step  # one episode, on both sides of the save
    assert before[0][0].step != before[1][0].step


@pytest.mark.long
def test_a_fleet_of_two_games_gives_the_episodes_of_its_streams_alone() -> None:
    deep, worm = (environment(f"octax/{game}").compiled() for game in ("deep", "worm"))
    fleet = Fleet([AGENT] * 3, [deep, deep, worm], [0, 1, 0], 100)
    fleet.begin()
    together = fleet.run(STEPS).episodes()
    assert any(together)
    saved = [arrays for arrays, _ in fleet.save()]
    for row, (env, seed) in enumerate(((deep, 0), (deep, 1), (worm, 0))):
        alone = CompiledStream(AGENT, env, seed=seed, steps=100)
        alone.begin()
        assert alone.run(STEPS) == together[row]
        for name, array in alone.save()[0].items():
            np.testing.assert_allclose(saved[row][name], array, rtol=1e-3, atol=1e-4, err_msg=name)
