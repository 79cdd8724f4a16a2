"""Where a limit cuts an episode: it is truncated, the true last frame is kept, and another episode begins.

The limits are set low, so that every game meets them; the usual run has the paper's Atari games and one of Octax, whose
programs take long to compile, and `-m long` has all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from headrace.envs.registry import SETS, Environment, environment, matching

LIMITS = {"atari": {"max_frames": 200}, "octax": {"max_steps": 20}}
STEPS = {"atari": 110, "octax": 50}
# Steps from one cut to the next. On Atari idle frames count too, and those that the emulator plays to start some games;
# a count that did not begin anew would cut every step.
BETWEEN = {"atari": range(8, 51), "octax": range(20, 21)}
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
    cuts = []
    for i, action in enumerate(np.random.default_rng(0).integers(short.spec.n_actions, size=STEPS[family]).tolist()):
        seen = short.step(action)
        if not cuts:
            uncut = long.step(action)
            np.testing.assert_array_equal(seen.successor, uncut.successor)
            assert not uncut.truncated
        if seen.truncated:
            assert seen.last
            cuts.append(i)
        elif seen.last:  # the game was over before
            assert seen.terminated
            cuts = []
            short.reset(3 + i)
            long.reset(3 + i)
    assert len(cuts) >= 2
    assert all(after - before in BETWEEN[family] for before, after in pairwise(cuts))
