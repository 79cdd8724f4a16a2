"""The usual limit of a game, reached by playing: Gopher goes on for ever where nothing is done."""

from __future__ import annotations

import json

import pytest

from headrace.envs.atari import AtariRules
from headrace.envs.atari.game import SKIP, AtariGame
from tests.envs.atari.support import digest, played

LIMIT = 108_000  # half an hour of 60 frames a second
SOON = 10_800  # in the usual run
IDLE = 0
SEED = 10  # its idle frames and FIRE are 28 frames, so that a step ends at the limit itself
BEFORE = 20  # steps before the limit at which the game is saved


@pytest.mark.parametrize("limit", [SOON, pytest.param(LIMIT, marks=pytest.mark.long)])
def test_a_game_is_truncated_after_half_an_hour_also_where_it_was_restored_on_the_way(limit: int) -> None:
    assert AtariRules().max_frames == LIMIT
    game, other = (AtariGame("gopher", AtariRules(max_frames=limit)) for _ in range(2))
    game.reset(SEED)
    begun = game._emulator.getEpisodeFrameNumber()
    steps, left = divmod(limit - begun, SKIP)
    assert (begun > SKIP, left) == (True, 0)
    for _ in range(steps - BEFORE):
        assert not game.step(IDLE).last
    other.reset(1)
    other.restore(json.loads(json.dumps(game.save())))
    before = played(game, [IDLE] * (BEFORE - 1))
    end = game.step(IDLE)
    assert (end.terminated, end.truncated, end.last) == (False, True, True)
    assert game._emulator.getEpisodeFrameNumber() < limit // 100  # of the new game
    assert played(other, [IDLE] * BEFORE) == [*before, digest(end)]
    assert not any(step.endswith("True") for step in before)
