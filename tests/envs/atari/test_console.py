"""Saving the emulator: where its own state is all of it, where it is not, and what is done about it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from ale_py import Action, ALEState, roms

from headrace.envs.atari import GAMES, REPLAYED
from headrace.envs.atari.console import Console, ReplayedConsole, frame_is_whole
from headrace.envs.atari.game import AtariGame
from tests.envs.atari.support import actions, played

THINKS_AT_ONCE = "tic_tac_toe_3d"


def begun(game: str, kind: type[Console] = Console) -> Console:
    console = kind(roms.get_rom_path(game), seed=0)
    console.reset_game()
    return console


def chosen(console: Console, frames: int, seed: int = 0) -> list[Action]:
    """Actions of four frames each."""
    known = console.getMinimalActionSet()
    return [known[i] for i in np.repeat(np.random.default_rng(seed).integers(len(known), size=frames // 4), 4)]


def state(console: Console) -> bytes:
    return console.cloneState(include_rng=True).serialize()


def gone_on(console: Console, frames: list[Action]) -> bytes:
    for action in frames:
        console.act(action)
    return state(console)


def test_every_replayed_game_is_one() -> None:
    assert set(GAMES) >= REPLAYED


@pytest.mark.parametrize("game", ["miniature_golf", "pitfall2", "pong"])
def test_the_state_of_some_consoles_is_not_all_of_them(game: str) -> None:
    """Should this fail for one of the two, the emulator was mended and the game need not be replayed any more."""
    console, other = begun(game), begun(game)
    frames = chosen(console, 160)
    gone_on(console, frames[:120])
    gone_on(other, [Action.NOOP])
    other.restoreState(ALEState(state(console)))
    assert (gone_on(other, frames[120:]) == gone_on(console, frames[120:])) == (game not in REPLAYED)


def test_within_a_frame_nothing_is_saved_as_it_would_go_on_differently() -> None:
    """The game of three-dimensional tic-tac-toe thinks for frames on end without finishing any."""
    console, other = begun(THINKS_AT_ONCE), begun(THINKS_AT_ONCE)
    frames = chosen(console, 120)
    states = [gone_on(console, [action]) for action in frames]
    whole = [frame_is_whole(one) for one in states]
    assert whole[0]
    first = whole.index(False)
    for saved in (first - 8, first):
        gone_on(other, frames[:1])
        other.restoreState(ALEState(states[saved]))
        assert (other.save() is not None) == whole[saved]
        assert (gone_on(other, [frames[saved + 1]]) == states[saved + 1]) == whole[saved]


@pytest.mark.parametrize("game", ["pong", "ms_pacman"])
def test_games_that_draw_all_the_time_can_be_saved_after_every_frame(game: str) -> None:
    console = begun(game)
    for action in chosen(console, 80):
        console.act(action)
        assert console.save() is not None


def test_a_game_whose_console_cannot_be_saved_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.envs.atari.game.REPLAYED", frozenset())
    game = AtariGame(THINKS_AT_ONCE)
    game.reset(0)
    saves = []
    for action in actions(game, 60, 0):
        game.step(action)
        saves.append(game.save())
    assert 0 < saves.count(None) < len(saves)


@pytest.mark.parametrize("game", sorted(REPLAYED))
def test_a_replayed_console_is_the_same_to_the_last_byte_wherever_it_was_saved(game: str) -> None:
    console, other = begun(game, ReplayedConsole), begun(game, ReplayedConsole)
    frames = chosen(console, 240)
    gone_on(other, chosen(other, 8, seed=1))
    for start, end in pairwise([0, 3, 35, 37, 38, 126, 127, 128, 200]):  # tic-tac-toe thinks at most of these
        gone_on(console, frames[start:end])
        other.restore(console.save())
        np.testing.assert_array_equal(other.getScreenRGB(), console.getScreenRGB())
        assert state(other) == state(console)
    assert gone_on(other, frames[200:]) == gone_on(console, frames[200:])


def test_a_hole_of_golf_that_was_begun_before_the_save_is_rewarded_rightly() -> None:
    """Hits at the start of the hole are in none of the emulator's states: restored from one, it rewards by millions."""
    game, other = AtariGame("miniature_golf"), AtariGame("miniature_golf")
    game.reset(0)
    other.reset(1)
    chosen = np.repeat(actions(game, 1_000, 0), 4).tolist()
    played(game, chosen[:3_710])
    other.restore(game.save())
    rewards = [(game.step(action).reward, other.step(action).reward) for action in chosen[3_710:3_740]]
    assert all(mine == theirs for mine, theirs in rewards)
    assert [mine for mine, _ in rewards if mine] == [-137.0]


def test_a_replayed_game_holds_no_more_than_what_was_played_since_it_began() -> None:
    game, other = AtariGame(THINKS_AT_ONCE), AtariGame(THINKS_AT_ONCE)
    game.reset(0)
    other.reset(1)
    ended = 0
    for action in actions(game, 1_000, 0):
        ended += game.step(action).last
        if ended == 2:
            break
    assert ended == 2
    assert len(game._emulator._played) == game._emulator.getEpisodeFrameNumber()
    other.restore(game.save())
    more = actions(game, 40, 1)
    assert played(other, more) == played(game, more)
    assert other.save() == game.save()
