"""Where a suite is measured: one of its games where that is to be had, else observations of its shape."""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.bench.playback import SPECS, HostPlayback
from headrace.envs.base import EnvSpec
from headrace.envs.registry import Environment, environment
from headrace.errors import HeadraceError, UnknownName, unknown

GAMES = {"minatar": "breakout", "octax": "pong", "atari": "pong"}


class Place(NamedTuple):
    """A game and its shapes; without the game where it cannot be had, and then why."""

    suite: str
    game: str
    spec: EnvSpec
    env: Environment | None
    notes: tuple[str, ...] = ()

    def host(self) -> Any:
        return self.env.host() if self.env is not None else HostPlayback(self.spec)


def place_of(suite: str, game: str | None = None) -> Place:
    if suite not in GAMES:
        raise unknown("suite", suite, GAMES)
    name = f"{suite}/{game or GAMES[suite]}"
    try:
        env = environment(name)
        spec = env.host().spec
    except UnknownName:
        if game is not None:
            raise
        return _without(suite, f"{name} is not there")
    except HeadraceError as error:
        return _without(suite, str(error))
    return Place(suite, name.partition("/")[2], spec, env)


def _without(suite: str, why: str) -> Place:
    note = f"only the update was measured, on played-back observations of {suite}'s shape: {why}"
    return Place(suite, GAMES[suite], SPECS[suite], None, (note,))
