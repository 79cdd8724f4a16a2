"""Octax: which CHIP-8 games there are, and the rules they are played by. Nothing here needs the octax package."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.part import Part, within

_GAMES = """
    airplane blinky brix cavern1 cavern2 cavern3 cavern4a cavern4b cavern5 cavern6 deep filter flight_runner missile
    pong rocket shooting_stars space_flight1 space_flight2 space_flight3 space_flight4 space_flight5 space_flight6
    space_flight7 space_flight8 space_flight9 space_flight10 spacejam squash submarine tank target_shooter1
    target_shooter2 target_shooter3 tetris ufo vertical_brix wipe_off worm
"""
GAMES = tuple(_GAMES.split())  # every game of the package, levels counted as games
PAPER_GAMES = ("airplane", "deep", "filter", "flight_runner", "pong", "spacejam", "ufo", "worm")


@dataclass(frozen=True)
class OctaxRules(Part):
    """What may be changed about an Octax game."""

    max_steps: int = within(4500, 1)  # then an episode is truncated
