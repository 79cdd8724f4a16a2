"""Atari 2600: which games there are, and the rules they are played by. Nothing here needs ale-py."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, within

_GAMES = """
    adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist basic_math
    battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede chopper_command
    crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk earthworld elevator_action enduro
    entombed et fishing_derby flag_capture freeway frogger frostbite galaxian gopher gravitar hangman haunted_house hero
    human_cannonball ice_hockey jamesbond journey_escape kaboom kangaroo keystone_kapers king_kong klax koolaid krull
    kung_fu_master laser_gates lost_luggage mario_bros miniature_golf montezuma_revenge mr_do ms_pacman name_this_game
    othello pacman phoenix pitfall pitfall2 pong pooyan private_eye qbert riverraid road_runner robotank seaquest
    sir_lancelot skiing solaris space_invaders space_war star_gunner superman surround tennis tetris tic_tac_toe_3d
    time_pilot trondead turmoil tutankham up_n_down venture video_checkers video_chess video_cube video_pinball
    wizard_of_wor word_zapper yars_revenge zaxxon
"""
_PAPER_GAMES = """
    alien amidar assault asterix bank_heist battle_zone boxing breakout chopper_command crazy_climber demon_attack
    freeway frostbite gopher hero jamesbond kangaroo krull kung_fu_master ms_pacman pong private_eye qbert road_runner
    seaquest up_n_down
"""
# Of these games the emulator's saved state is not all: they are saved by what was played, and played again.
_REPLAYED = {
    "miniature_golf": "hits and par, from which its rewards are made, are saved as whether they are zero",
    "pitfall2": "the clock of its sound chip is saved cut to eight decimals",
    "tic_tac_toe_3d": "while the game thinks a frame is left unfinished, and how far it was drawn is not saved",
    "video_checkers": "while the game thinks a frame is left unfinished, and how far it was drawn is not saved",
}
GAMES = tuple(_GAMES.split())  # every game of the ale-py package that one player can play
PAPER_GAMES = tuple(_PAPER_GAMES.split())  # which are also those of the Atari 100k benchmark
REPLAYED = frozenset(_REPLAYED)


@dataclass(frozen=True)
class LifeEndsLearning(Part):
    """A lost life stops the bootstrap and cuts traces, while the game and its return go on."""


@dataclass(frozen=True)
class LivesIgnored(Part):
    """Only the end of the game ends anything."""


@dataclass(frozen=True)
class AtariRules(Part):
    """What may be changed about an Atari game."""

    sticky: float = within(0.0, 0.0, 1.0)  # probability, at every frame, that the last action is repeated
    noops: int = within(30, 0, 1000)  # a game begins with 1 to so many idle frames; 0 for none
    lives: LifeEndsLearning | LivesIgnored = LifeEndsLearning()
    max_frames: int = within(108_000, 1)  # of a game, idle ones included; then it is truncated
