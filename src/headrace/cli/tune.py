"""The command `headrace tune`."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.cli.interrupts import INTERRUPTED
from headrace.runs.strict_json import dumps

if TYPE_CHECKING:
    from headrace.sweep.tuning import Tuned

ABOUT = "search for better settings of an agent, or continue a search"
SHOWN = 10  # trials in the table


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("variant", metavar="VARIANT", help="the agent, e.g. qrc")
    add("envs", metavar="ENVIRONMENTS", help="such as 'minatar/*'")
    add(
        "--over", action="append", default=[], metavar="PATH=RANGE",
        help="what to search: td.lr=log:1e-5:1e-3, td.lamda=0:0.99 or aux.gate=Always()|Every(5); many times",
    )  # fmt: skip
    add("--budget", type=number, default=40, help="how many trials (40)")
    add("--seeds", default="0:3", help="of each trial: 0:3 (0 to 2) or 0,3,7 (0:3)")
    add("--steps", type=number, default=1e6, help="environment steps of each run (1M)")
    add("--set", dest="settings", action="append", default=[], metavar="PATH=VALUE", help="what stays fixed")
    add("--engine", default="auto", help="learner, reference, or auto")
    add("--on", default="local", help="local: this machine's cores; fleet: an accelerator (local)")
    add("--jobs", type=number, metavar="N", help="runs at once (one a core)")
    add("--out", default="tuning", metavar="FOLDER", help="where the runs and the search are kept (tuning)")
    add("--seed", type=number, default=0, help="of the search itself (0)")
    add("--quiet", action="store_true", help="no live lines")


def run(words: argparse.Namespace) -> int:
    from headrace.sweep.display import for_terminal
    from headrace.sweep.tuning import Tuning

    tuned = Tuning(
        words.variant, words.envs, words.over, out=words.out, budget=words.budget, seeds=words.seeds, steps=words.steps,
        settings=words.settings, seed=words.seed, engine=words.engine, on=words.on, jobs=words.jobs,
        display=lambda: for_terminal(words.quiet),
    ).go()  # fmt: skip
    command = best_command(words, tuned)
    if words.json:
        facts = {**tuned._asdict(), "tried": [tried._asdict() for tried in tuned.tried], "command": command}
        print(dumps(facts))
    else:
        print(table(tuned))
        if command:
            print(f"\nthe best on seeds that no trial has seen:\n  {command}")
    return INTERRUPTED if tuned.interrupted else 0


def best_command(words: argparse.Namespace, tuned: Tuned) -> str:
    """Trains the best trial's settings on fresh seeds; empty where no trial is complete."""
    if not tuned.tried or tuned.tried[0].state != "complete":
        return ""
    settings = [word for setting in (*words.settings, *tuned.tried[0].settings) for word in ("--set", setting)]
    engine = [] if words.engine == "auto" else ["--engine", words.engine]
    seeds = ["--seeds", tuned.fresh_seeds, "--steps", f"{words.steps:g}"]
    return shlex.join(["headrace", "sweep", words.variant, words.envs, *seeds, *engine, *settings])


def table(tuned: Tuned) -> str:
    """The best trials, best first, and the agent as it is."""
    lines = [f"{'score':>10}  settings"]
    for tried in tuned.tried[:SHOWN]:
        score = "pruned" if math.isnan(tried.score) else f"{tried.score:.4g}"
        lines.append(f"{score:>10}  {' '.join(tried.settings)}")
    if len(tuned.tried) > SHOWN:
        lines.append(f"{'...':>10}  {len(tuned.tried) - SHOWN} more")
    untuned = "-" if math.isnan(tuned.untuned) else f"{tuned.untuned:.4g}"
    pruned = sum(tried.state == "pruned" for tried in tuned.tried)
    lines += [f"{untuned:>10}  as it is", f"{len(tuned.tried)} trials, {pruned} of them pruned"]
    return "\n".join([*lines, *(["stopped; the same command continues"] if tuned.interrupted else [])])
