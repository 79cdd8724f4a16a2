"""Octax games inside a fleet: two games, each stream as it is alone."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.engines.reference.compiled import CompiledStream
from headrace.engines.reference.fleet import Fleet
from headrace.envs.registry import environment

AGENT = tweak(agent_named("strq"), "network=Conv((4,), ((4, 8),), ((4, 8),), 8)")
STEPS = 60


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")
def test_a_fleet_of_two_games_gives_the_episodes_of_its_streams_alone() -> None:
    deep, worm = (environment(f"octax/{game}").compiled() for game in ("deep", "worm"))
    fleet = Fleet([AGENT] * 3, [deep, deep, worm], [0, 1, 0], 100)
    fleet.begin()
    together = fleet.run(STEPS).episodes()
    assert any(together)
    saved = fleet.save()
    for row, (env, seed) in enumerate(((deep, 0), (deep, 1), (worm, 0))):
        alone = CompiledStream(AGENT, env, seed=seed, steps=100)
        alone.begin()
        assert alone.run(STEPS) == together[row]
        for name, array in alone.save()[0].items():
            np.testing.assert_allclose(saved[row][name], array, rtol=1e-3, atol=1e-4, err_msg=name)
