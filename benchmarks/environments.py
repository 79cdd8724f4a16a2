"""Atari games without any agent, on one core: whole steps, and the frames of the emulator alone, in turn.

python benchmarks/environments.py [--games pong,breakout] [--stretches 9] [--steps 150] [--out FILE.json]

Random actions, new games included. A stretch of steps is played by the environment, then its frames alone from the same
state; medians over stretches, in CPU time. Where other programs run on the core, the share tells more than the rates.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from headrace.envs.atari.game import SKIP, AtariGame

GAMES = "pong,seaquest,ms_pacman,breakout,boxing,freeway"


def measured(name: str, stretches: int, steps: int) -> dict[str, Any]:
    game = AtariGame(name)
    game.reset(0)
    whole, bare = [], []
    for actions in np.random.default_rng(0).integers(game.spec.n_actions, size=(stretches, steps)).tolist():
        saved = game.save()
        bare.append(steps / seconds(lambda actions=actions: emulated(game, actions)))
        game.restore(saved)
        whole.append(steps / seconds(lambda actions=actions: played(game, actions)))
    share = np.median(np.array(whole) / np.array(bare))
    return {"game": name, "steps_per_s": np.median(whole), "emulator_steps_per_s": np.median(bare), "share": share}


def played(game: AtariGame, actions: list[int]) -> None:
    for action in actions:
        game.step(action)


def emulated(game: AtariGame, actions: list[int]) -> None:
    """The emulator's part of a step, and of a new game without its idle frames."""
    emulator, known = game._emulator, game._actions
    for action in actions:
        for _ in range(SKIP):
            emulator.act(known[action])
        if emulator.game_over(with_truncation=False):
            emulator.reset_game()


def seconds(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default=GAMES)
    parser.add_argument("--stretches", type=int, default=9)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    print("| game | steps/s | its emulator alone | share |", "|---|---|---|---|", sep="\n")
    found = []
    for name in words.games.split(","):
        found.append(measured(name, words.stretches, words.steps))
        rates = f"{found[-1]['steps_per_s']:,.0f} | {found[-1]['emulator_steps_per_s']:,.0f}"
        print(f"| {name} | {rates} | {found[-1]['share']:.0%} |", flush=True)
    if words.out:
        words.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
