"""Where a limit cuts an episode: it is truncated, the true last frame is kept, and another episode begins.

The limits are set low, so that every game meets them; the usual run has the paper's Atari games and one of Octax, whose
programs take long to compile, and `-m long` has all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headrace.envs.registry import SETS, Environment, environment, matching

LIMITS = {"atari": {"max_frames": 200}, "octax": {"max_steps": 2}}  # some games of Octax are over in three steps
STEPS = {"atari": 110, "octax": 40}
# Steps of an episode that was cut. On Atari idle frames count too, and those that the emulator plays to start some
# games; a count that did not begin anew would cut every step.
LASTED = {"atari": range(8, 51), "octax": range(2, 3)}
USUAL = [*SETS["atari26"], "octax/pong"]


def cases() -> Iterator[Any]:
    for name in [*matching("atari/*"), *matching("octax/*")]:
        yield pytest.param(name, marks=[] if name in USUAL else [pytest.mark.long])


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")
@pytest.mark.parametrize("name", list(cases()))
def test_an_episode_is_cut_where_its_limit_is(name: str) -> None:
    family, usual = name.partition("/")[0], environment(name)
    short = Environment(usual.name, replace(usual.rules, **LIMITS[family])).host()
    long = usual.host()
    np.testing.assert_array_equal(short.reset(3), long.reset(3))
    comparing, taken, cuts = True, 0, 0
    for action in np.random.default_rng(0).integers(short.spec.n_actions, size=STEPS[family]).tolist():
        seen, taken = short.step(action), taken + 1
        if comparing:
            np.testing.assert_array_equal(seen.successor, long.step(action).successor)
        if seen.last:
            assert seen.truncated or seen.terminated
            assert not seen.truncated or taken in LASTED[family]
            comparing, taken, cuts = False, 0, cuts + seen.truncated
    assert cuts >= 2
