"""The command `headrace zoo`: the trained agents that come with the package."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from headrace.cli.output import put
from headrace.runs.folder import RunFolder
from headrace.runs.zoo import HOME, names
from headrace.training.run import run_of

ABOUT = "the trained agents that come with headrace, to play and evaluate"
CELLS = "{:<20} {:<15} {:<23} {:>6} {:>15}"
USES = """
headrace play zoo/breakout              a video of an episode
headrace eval zoo/breakout              the returns of 30 episodes
headrace show zoo/breakout              its settings, its learning curve and the command that trains such an agent
headrace.load("zoo/breakout")           its policy, in Python

The return is that of the agent as it is stored, at rest: mean and standard deviation over 30 episodes."""


def run(words: argparse.Namespace) -> int:
    found = [describe(f"{HOME.name}/{name}") for name in names()]
    put(words, found, "\n".join(_lines(found)))
    return 0


def describe(path: str) -> dict[str, Any]:
    folder = RunFolder.read(path)
    trained, score = run_of(folder.identity), folder.score()
    return {
        "name": path,
        "agent": folder.manifest["agent"],
        "env": trained.env.name,
        "install": trained.env.install or None,
        "steps": trained.steps,
        "seed": trained.seed,
        "score": score.mean if score else None,
        **{name: float(column[-1]) for name, column in folder.evaluations().items() if name != "step"},
        "changed": folder.manifest["changed"],
        "command": trained.command,
        "commit": folder.manifest["commit"],
    }


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    yield CELLS.format("name", "agent", "environment", "steps", "return").rstrip()
    for agent in found:
        steps, played = f"{agent['steps'] / 1e6:g}M", "{mean:.1f} +- {std:.1f}".format(**agent)
        needs = f"   pip install {agent['install']!r}" if agent["install"] else ""
        yield CELLS.format(agent["name"], agent["agent"], agent["env"], steps, played) + needs
    yield USES
