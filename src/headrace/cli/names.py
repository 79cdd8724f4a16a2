"""The commands `headrace variants` and `headrace envs`: what has a name, with a line on each."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.agents import ABLATIONS, FAMILY, RECIPES, VARIANTS, parameter_count, to_json
from headrace.agents.variants import ABOUT
from headrace.cli.output import put
from headrace.envs.registry import FAMILIES, SETS, environment, matching, names

EXAMPLE = ((10, 10, 4), 3)  # MinAtar Breakout's observation and number of actions
KINDS = (
    ("variant", VARIANTS, "the paper's nine variants"),
    ("ablation", ABLATIONS, "ablations"),
    ("recipe", RECIPES, "recipes found here"),
    ("family", FAMILY, "others of the streaming family"),
)


def add_env_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", metavar="NAME", nargs="?", default="", help="tell more of these, e.g. 'atari26/*'")


def show_variants(words: argparse.Namespace) -> int:
    put(words, variants(), "\n".join(_variant_lines()))
    return 0


def show_envs(words: argparse.Namespace) -> int:
    found = envs(words.word)
    put(words, found, "\n".join(_env_lines(found) if words.word else _family_lines()))
    return 0


def variants() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "kind": kind,
            "about": ABOUT[name],
            "parameters": parameter_count(agent, *EXAMPLE),
            "expression": repr(agent),
            "agent": to_json(agent),
        }
        for kind, found, _ in KINDS
        for name, agent in found.items()
    ]


def _variant_lines() -> Iterator[str]:
    counts = {found["name"]: found["parameters"] for found in variants()}
    width = max(map(len, counts))
    for _, found, title in KINDS:
        yield f"{title}:"
        for name in found:
            yield f"  {name:{width}}  {counts[name]:>9,}  {ABOUT[name]}"
        yield ""
    yield "The number is of parameters on MinAtar Breakout. `+unguarded` goes with any name: no bound on gradients."
    yield "Any setting can be changed: headrace train qrc+spr ENVIRONMENT --set aux.weight=0.5"


def envs(word: str = "") -> list[dict[str, Any]]:
    """The environments that a word or pattern names, or all that have a name.

    Observations and actions are given for those asked for, and for those that need no package.
    """
    rows = []
    for found in map(environment, matching(word) if word else names()):
        spec = found.spec() if word or found.at_hand else None
        rows.append(
            {
                "name": found.name,
                "observation": list(spec.observation_shape) if spec else None,
                "actions": list(spec.actions) if spec else None,
                "box": spec.box if spec else None,  # whether an action is a number for each of these
                "install": found.install or None,
                "rules": to_json(found.rules),
                "about": found.about,
            }
        )
    return rows


def _env_lines(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    width = max(len(env["name"]) for env in found)
    for env in found:
        seen, kind = "x".join(map(str, env["observation"])), "numbers" if env["box"] else "actions"
        yield f"{env['name']:{width}}  sees {seen:9} {len(env['actions']):>2} {kind}  {env['about']}"
    if len(found) == 1:
        told = "one number for each coordinate of a box" if found[0]["box"] else ", ".join(found[0]["actions"])
        yield from ("", f"actions: {told}")
        rules = (f"--set env.{name}={value}" for name, value in found[0]["rules"].items() if name != "part")
        yield f"rules:   {'  '.join(rules) or 'none that can be set'}"


def _family_lines() -> Iterator[str]:
    """Every family with its members, as wide as the terminal is."""
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    for family, found in FAMILIES.items():
        first = next(iter(found.members), "")
        install = environment(f"{family}/{first or 'ID'}").install if family != "own" else ""
        needs = f"; pip install {install!r}" if install else ""
        yield f"{family + ('/*' if first else '/ID'):11} {found.about}{needs}"
        for name, members in SETS.items():
            if members[0].partition("/")[0] == family:
                yield f"{'':11} {name}/*: the paper's {len(members)}"
        yield from textwrap.wrap(
            ", ".join(found.members), width, initial_indent=" " * 12, subsequent_indent=" " * 12, break_on_hyphens=False
        )
        yield ""
    yield "A name is FAMILY/MEMBER, such as minatar/breakout. `headrace envs 'minatar/*'` tells more of each."
