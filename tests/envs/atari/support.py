"""Playing Atari games in tests."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from headrace.envs.atari.game import AtariGame
from headrace.envs.base import TimeStep

RESUME = """
import json, sys
from tests.envs.atari.support import played, resumed
saved = json.loads(sys.stdin.read())
seen = {game: played(resumed(game, one["save"], one["sticky"]), one["actions"]) for game, one in saved.items()}
print(json.dumps(seen))
"""


def actions(game: AtariGame, count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(game.spec.n_actions, size=count).tolist()


def digest(seen: TimeStep) -> str:
    """All that a step said, in brief."""
    frames = hashlib.sha256(seen.obs.tobytes() + seen.successor.tobytes()).hexdigest()[:16]
    return f"{frames} {seen.reward} {seen.terminated} {seen.truncated} {seen.last}"


def played(game: AtariGame, chosen: Iterable[int]) -> list[str]:
    return [digest(game.step(action)) for action in chosen]


def resumed(name: str, saved: dict, sticky: float = 0.0) -> AtariGame:
    from headrace.envs.atari import AtariRules

    game = AtariGame(name, AtariRules(sticky=sticky))
    game.reset(12345)
    game.restore(saved)
    return game


def in_a_new_process(saved: dict[str, dict]) -> dict[str, list[str]]:
    """What each game shows when it is restored by another process and goes on with its actions."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", RESUME], input=json.dumps(saved), capture_output=True, text=True, check=True, cwd=root
    )
    return json.loads(done.stdout)
