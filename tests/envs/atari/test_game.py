"""Atari games: the pipeline step by step, by scripted emulators and by the emulator itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ale_py import Action, ALEInterface, roms

from headrace.envs.atari import GAMES, PAPER_GAMES, AtariRules, LivesIgnored
from headrace.envs.atari.game import SIZE, SKIP, AtariGame
from headrace.envs.atari.pixels import Picture
from headrace.part import tweak
from tests.envs.atari.support import actions, in_a_new_process, played

GOLDEN = Path(__file__).parent / "golden.npz"


def test_the_games_are_those_of_the_package_that_one_player_can_play() -> None:
    shipped = [game for game in roms.get_all_rom_ids() if ALEInterface.isSupportedROM(roms.get_rom_path(game))]
    assert sorted(GAMES) == sorted(shipped)
    assert len(PAPER_GAMES) == 26
    assert set(PAPER_GAMES) <= set(GAMES)


class Script:
    """An emulator that plays frames from a list; a frame is (grey value, reward, lives, over)."""

    def __init__(self, game: list[tuple[int, float, int, bool]]) -> None:
        self.game, self.at, self.taken, self.games = game, -1, list[Action](), 0

    def reset_game(self) -> None:
        self.at, self.games = -1, self.games + 1

    def act(self, action: Action) -> float:
        assert not self.game_over(), "played on after the end"
        self.at += 1
        self.taken.append(action)
        return self.game[self.at][1]

    def game_over(self, with_truncation: bool = True) -> bool:
        return self.at >= 0 and self.game[self.at][3]

    def lives(self) -> int:
        return self.game[max(self.at, 0)][2]

    def getEpisodeFrameNumber(self) -> int:
        return self.at + 1

    def getScreenDims(self) -> tuple[int, int]:
        return (210, 160)

    def getScreen(self, out: np.ndarray) -> None:
        out[:] = self._grey()

    def getScreenGrayscale(self) -> np.ndarray:
        return np.full(self.getScreenDims(), self._grey(), np.uint8)

    def _grey(self) -> int:
        return self.game[self.at][0] if self.at >= 0 else 0


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pong's environment with another emulator underneath; its actions begin with NOOP and FIRE."""

    def make(frames: list[tuple[int, float, int, bool]], **rules: Any) -> tuple[AtariGame, Script]:
        game, script = AtariGame("pong"), Script(frames)
        game.rules = AtariRules(**{"noops": 0, **rules})

        def load(seed: int) -> None:
            game._emulator, game._picture = script, Picture(script, SIZE)

        monkeypatch.setattr(game, "_load", load)
        game.reset(0)
        script.taken.clear()
        return game, script

    return make


def frames(*greys: int, rewards: Any = None, lives: Any = None, over_at: int = -1) -> list[Any]:
    """FIRE's four frames, then these."""
    many = [0] * SKIP + list(greys)
    rewards, lives = rewards or {}, lives or {}
    now, found = 3, []
    for i, grey in enumerate(many):
        now = lives.get(i - SKIP, now)
        found.append((grey, rewards.get(i - SKIP, 0.0), now, over_at >= 0 and i - SKIP == over_at))
    return found


def test_an_action_lasts_four_frames_and_the_brighter_of_the_last_two_is_shown(scripted: Any) -> None:
    game, script = scripted(frames(200, 90, 40, 30, 9, 9, 10, 70))
    first, second = game.step(2), game.step(3)
    assert [int(first.successor.max()), int(second.successor.max())] == [40, 70]
    assert first.successor.shape == (84, 84, 1)
    assert script.taken == [game._actions[2]] * 4 + [game._actions[3]] * 4


def test_rewards_of_the_four_frames_are_added_and_never_clipped(scripted: Any) -> None:
    game, _ = scripted(frames(1, 1, 1, 1, rewards={0: 100.0, 1: -7.0, 3: 1000.0}))
    assert game.step(0).reward == 1093.0


def test_a_lost_life_is_terminal_but_the_game_goes_on(scripted: Any) -> None:
    game, script = scripted(frames(*range(1, 13), lives={4: 2, 8: 4}))
    seen = [game.step(0) for _ in range(3)]
    assert [(s.terminated, s.truncated, s.last) for s in seen] == [
        (False, False, False),
        (True, False, False),
        (False, False, False),  # a life won is no end
    ]
    assert script.games == 1
    np.testing.assert_array_equal(seen[1].obs, seen[1].successor)


def test_the_last_life_may_be_one_that_the_game_counts_as_zero(scripted: Any) -> None:
    """As in Bank Heist, which plays on with no life left over."""
    game, _ = scripted(frames(*range(1, 13), lives={0: 1, 4: 0}))
    assert [game.step(0).terminated for _ in range(3)] == [True, True, False]


def test_lives_can_be_ignored(scripted: Any) -> None:
    game, _ = scripted(frames(*range(1, 9), lives={4: 2}), lives=LivesIgnored())
    assert [game.step(0).terminated for _ in range(2)] == [False, False]
    assert tweak(AtariRules(), "lives=LivesIgnored").lives == LivesIgnored()


def test_the_end_of_the_game_is_last_and_a_new_game_begins(scripted: Any) -> None:
    game, script = scripted(frames(10, 20, 50, 60, over_at=3, rewards={3: 5.0}))
    seen = game.step(0)
    assert (seen.terminated, seen.truncated, seen.last, seen.reward) == (True, False, True, 5.0)
    assert int(seen.successor.max()) == 60
    assert int(seen.obs.max()) == 0  # FIRE's frames
    assert script.games == 2


@pytest.mark.parametrize(("over_at", "shown"), [(0, 200), (1, 90), (2, 40), (3, 40)])
def test_a_game_that_ends_within_an_action_shows_its_last_frame(scripted: Any, over_at: int, shown: int) -> None:
    """Alone, where the frame before was not looked at; frames after the end are not played."""
    game, _ = scripted(frames(200, 90, 40, 30, over_at=over_at))
    assert int(game.step(0).successor.max()) == shown


def test_frames_truncate(scripted: Any) -> None:
    game, script = scripted(frames(*range(1, 17)), max_frames=SKIP + 8)
    first, second = game.step(0), game.step(0)
    assert not first.last
    assert (second.terminated, second.truncated, second.last) == (False, True, True)
    assert int(second.successor.max()) == 8
    assert script.games == 2


def test_a_game_that_ends_at_its_limit_of_frames_is_terminated_not_truncated(scripted: Any) -> None:
    game, _ = scripted(frames(1, 2, 3, 4, over_at=3), max_frames=SKIP + 4)
    seen = game.step(0)
    assert (seen.terminated, seen.truncated, seen.last) == (True, False, True)


def test_a_game_begins_with_idle_frames_and_fire(scripted: Any) -> None:
    game, script = scripted([(i % 250, 0.0, 3, False) for i in range(100)], noops=7)
    idle = []
    for seed in range(60):
        script.taken.clear()
        game.reset(seed)
        assert script.taken[-SKIP:] == [Action.FIRE] * SKIP
        assert set(script.taken[:-SKIP]) == {Action.NOOP}
        idle.append(len(script.taken) - SKIP)
    assert sorted(set(idle)) == [1, 2, 3, 4, 5, 6, 7]


def test_where_there_is_no_fire_none_is_pressed() -> None:
    freeway, breakout = (AtariGame(name, AtariRules(noops=0)) for name in ("freeway", "breakout"))
    freeway.reset(0)
    breakout.reset(0)
    assert "fire" not in freeway.spec.actions
    assert freeway._emulator.getEpisodeFrameNumber() == 0
    assert breakout._emulator.getEpisodeFrameNumber() == SKIP


def test_the_emulator_skips_and_repeats_nothing_by_itself() -> None:
    for rules in (AtariRules(), AtariRules(sticky=0.25)):
        game = AtariGame("pong", rules)
        assert game._emulator.getInt("frame_skip") == 1
        assert game._emulator.getFloat("repeat_action_probability") == 0.0


def test_at_each_frame_the_action_of_the_frame_before_may_stick(scripted: Any) -> None:
    """By the drawn numbers, for the frames of FIRE too; at 0 none are drawn."""
    game, script = scripted(frames(*range(40)), sticky=0.5)
    drawn = np.random.default_rng(0)
    held = Action.NOOP
    for _ in range(SKIP):
        held = held if drawn.random() < 0.5 else Action.FIRE
    expected = []
    for action in (2, 3, 4, 5, 2, 3, 4):
        game.step(action)
        for _ in range(SKIP):
            held = held if drawn.random() < 0.5 else game._actions[action]
            expected.append(held)
    assert script.taken == expected
    assert any(expected[i] != expected[i + SKIP - 1] for i in range(0, 28, SKIP))
    untouched, _ = scripted(frames(*range(8)))
    before = untouched._random.bit_generator.state
    untouched.step(2)
    assert untouched._random.bit_generator.state == before


def test_a_game_of_very_sticky_actions_goes_on_the_same_wherever_it_was_saved() -> None:
    """What sticks is the action of the frame before the save, which the restored game has never been given."""
    game, other = (AtariGame("boxing", AtariRules(sticky=0.9)) for _ in range(2))
    game.reset(3)
    other.reset(4)
    for i, action in enumerate(actions(game, 25, 5)):
        game.step(action)
        other.restore(json.loads(json.dumps(game.save())))
        chosen = actions(game, 2, i)
        saved = game.save()
        assert played(other, chosen) == played(game, chosen)
        game.restore(saved)


def test_sticky_actions_follow_the_seed() -> None:
    def seen(seed: int, sticky: float) -> list[str]:
        game = AtariGame("breakout", AtariRules(sticky=sticky, noops=0))
        game.reset(seed)
        return played(game, actions(game, 60, 0))

    assert seen(0, 0.25) == seen(0, 0.25)
    assert seen(0, 0.25) != seen(1, 0.25)
    assert seen(0, 0.0) == seen(1, 0.0)


def test_the_frames_are_those_that_were_recorded() -> None:
    """Frames after 40 and 120 given actions; change them only together with the pipeline's definition."""
    with np.load(GOLDEN) as recorded:
        for name in recorded.files:
            game = AtariGame(name)
            game.reset(7)
            seen = [game.step(action).successor for action in actions(game, 120, 3)]
            np.testing.assert_array_equal(np.stack([seen[39], seen[119]]), recorded[name], err_msg=name)


def test_a_whole_game_is_counted_raw() -> None:
    game = AtariGame("breakout")
    game.reset(0)
    total, lost, raw = 0.0, 0, 0.0
    for action in actions(game, 2_000, 5):
        seen = game.step(action)
        total, lost = total + seen.reward, lost + (seen.terminated and not seen.last)
        if seen.last:
            break
        raw = float(_breakout_score(game))
    assert seen.last
    assert lost == 4  # of five lives, the last of which ends the game
    assert total == raw > 0


def _breakout_score(game: AtariGame) -> int:
    """The score as the console holds it: decimal digits in two bytes of its memory."""
    memory = game._emulator.getRAM()
    return sum(int(digit) * 10**i for i, digit in enumerate(reversed(f"{memory[76]:02x}{memory[77]:02x}")))


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_a_game_saved_in_the_middle_goes_on_the_same_in_a_new_process(sticky: float) -> None:
    """Four games, one of them replayed, 200 steps; the longer run has all of them and 500."""
    _saved_and_resumed(("breakout", "ms_pacman", "pong", "tic_tac_toe_3d"), 200, sticky)


@pytest.mark.long
def test_each_of_the_papers_games_saved_in_the_middle_goes_on_the_same_in_a_new_process() -> None:
    _saved_and_resumed(PAPER_GAMES, 500, 0.0)
    _saved_and_resumed(PAPER_GAMES, 500, 0.25)


@pytest.mark.long
def test_every_other_game_saved_in_the_middle_goes_on_the_same_in_a_new_process() -> None:
    _saved_and_resumed([game for game in GAMES if game not in PAPER_GAMES], 500, 0.25)


def _saved_and_resumed(names: Any, steps: int, sticky: float) -> None:
    """Each game has a seed and a place of its own: what is drawn first after restoring differs between them."""
    saved, wanted = {}, {}
    for i, name in enumerate(names):
        game = AtariGame(name, AtariRules(sticky=sticky))
        game.reset(i)
        played(game, actions(game, 100 + 7 * (i % 10), i))
        saved[name] = {"save": game.save(), "sticky": sticky, "actions": actions(game, steps, 2)}
        wanted[name] = played(game, saved[name]["actions"])
    assert in_a_new_process(saved) == wanted


def test_an_emulator_that_has_played_nothing_yet_can_be_restored_too() -> None:
    """Q*bert tells the difference."""
    game = AtariGame("qbert")
    game.reset(1)
    played(game, actions(game, 20, 1))
    other = AtariGame("qbert")
    other._load(0)
    other.restore(game.save())
    chosen = actions(game, 40, 2)
    assert played(game, chosen) == played(other, chosen)


def test_a_restored_game_shows_the_same_picture_after_a_step() -> None:
    game = AtariGame("ms_pacman")
    game.reset(0)
    played(game, actions(game, 100, 0))
    other = AtariGame("ms_pacman")
    other.restore(game.save())
    for each in (game, other):
        each.step(3)
    np.testing.assert_array_equal(other.render(), game.render())
    assert game.render().shape == (210, 160, 3)


def test_bad_input_is_named() -> None:
    game = AtariGame("pong")
    with pytest.raises(ValueError, match="unknown Atari game 'pang'"):
        AtariGame("pang")
    with pytest.raises(ValueError, match=r"atari/pong has actions 0..5, got 6"):
        game.step(6)
    with pytest.raises(ValueError, match="the saved state is of atari/pong, this environment is atari/boxing"):
        AtariGame("boxing").restore(game.save())
