"""The command `headrace sweep`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.cli.interrupts import INTERRUPTED
from headrace.cli.output import put
from headrace.errors import BadSetting
from headrace.training.run import Run

if TYPE_CHECKING:
    from headrace.sweep.driver import Swept

ABOUT = "train many runs, or continue where they stopped"
GRID_ONLY = ("seeds", "steps", "settings", "engine", "form")
PLACE_ONLY = {"fleet": ("streams",), "ray": ("address",), "slurm": ("partition", "time", "memory", "sbatch")}


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("plan", metavar="PLAN", help="variants such as 'qrc,qrc+spr*', or a file of plans: plan.py or plan.py::name")
    add("envs", metavar="ENVIRONMENTS", nargs="?", help="such as 'minatar/*'; not with a file")
    add("--seeds", help="0:5 (0 to 4) or 0,3,7 (0:5)")
    add("--steps", type=number, help="environment steps of each run (5e6)")
    add(
        "--set", dest="settings", action="append", metavar="PATH=VALUE|VALUE...",
        help="change a setting; alternatives multiply the grid; may be given many times",
    )  # fmt: skip
    add("--engine", help="learner, reference, or auto: what the place of training does best")
    add("--form", help="of the environment: compiled, host, or auto: what the engine has")
    add("--out", default="runs", metavar="FOLDER", help="where run folders live; shared storage on a cluster (runs)")
    add("--status", action="store_true", help="say how the runs stand and train nothing")
    add_place_words(parser, number)


def add_place_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    """Where and how a plan is trained, whichever it is."""
    add = parser.add_argument
    add(
        "--on",
        default="local",
        help="local: this machine's cores; fleet: an accelerator; ray, slurm: a cluster (local)",
    )
    add("--jobs", type=number, metavar="N", help="runs at once, or fleets (one a core; one fleet; all that Slurm lets)")
    add("--streams", type=number, metavar="N", help="fleet: the most runs in one (256)")
    add("--address", metavar="HOST:PORT", help="ray: of a cluster (RAY_ADDRESS; else one is started on this machine)")
    add("--partition", metavar="NAME", help="slurm: which (the cluster's default)")
    add("--time", metavar="[H:]MM", help="slurm: of one stretch; a run is then saved and queued again (4:00)")
    add("--memory", type=number, metavar="GB", help="slurm: for each run (2)")
    add("--sbatch", action="append", metavar="NAME=VALUE", help="slurm: any other option of sbatch; many times")
    add("--checkpoint-every", type=number, metavar="STEPS", help="instead of by the clock")
    add_watch_words(parser, number)
    add("--stop-after", type=number, metavar="SECONDS", help="save and stop then; the same command continues")
    add("--quiet", action="store_true", help="no live lines")


def add_watch_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    """What is done beside the training of a run."""
    add = parser.add_argument
    add("--eval-every", type=number, metavar="STEPS", help="let a frozen copy play, and keep the best checkpoint")
    add("--eval-episodes", type=number, default=10, metavar="N", help="episodes that it plays each time (10)")
    add("--callbacks", default="", metavar="MODULE", help="a module of yours with on_step, on_episode or on_log")


def run(words: argparse.Namespace) -> int:
    from headrace.sweep.driver import Swept
    from headrace.sweep.status import resolved, standings

    plan = plan_of(words)
    place_of(words)  # its mistakes are reported even where only the status is asked for
    if words.status:
        _print(words, Swept(standings(resolved(plan, words.on, words.out), words.out), interrupted=False))
        return 0
    swept = sweep_as_told(words, plan)
    _print(words, swept)
    return exit_status(swept)


def sweep_as_told(words: argparse.Namespace, plan: list[Run]) -> Swept:
    from headrace.sweep.display import for_terminal
    from headrace.sweep.driver import sweep

    return sweep(
        plan, words.out, on=words.on, jobs=words.jobs, checkpoint_every=words.checkpoint_every,
        stop_after=words.stop_after, eval_every=words.eval_every, eval_episodes=words.eval_episodes,
        callbacks=words.callbacks, display=for_terminal(words.quiet), **place_of(words),
    )  # fmt: skip


def exit_status(swept: Swept) -> int:
    """0 where all runs are done, 1 where some are not, 130 where the sweep was stopped."""
    if swept.interrupted:
        return INTERRUPTED
    return 0 if all(s.state == "done" for s in swept.standings) else 1


def plan_of(words: argparse.Namespace) -> list[Run]:
    from headrace.sweep.display import Display
    from headrace.sweep.plan import grid, left_out, read_plan

    given = {name: getattr(words, name) for name in GRID_ONLY if getattr(words, name) is not None}
    if not words.plan.partition("::")[0].endswith(".py"):
        if words.envs is None:
            raise BadSetting(f"which environments? e.g. headrace sweep {words.plan!r} 'minatar/*'")
        plan = grid(words.plan, words.envs, **given)
        for said in left_out(words.plan, words.envs, given.get("settings", ())):
            Display().notice(said)
        return plan
    if words.envs is not None or given:
        extra = repr(words.envs) if words.envs is not None else f"--{'set' if 'settings' in given else min(given)}"
        raise BadSetting(f"{words.plan} says which runs there are; {extra} goes with a grid on the command line only")
    return read_plan(words.plan)


def place_of(words: argparse.Namespace) -> dict[str, Any]:
    """What was chosen about the place of training; an error where it is another place's."""
    from headrace.sweep.executor import slurm_options
    from headrace.training.run import seconds

    if words.stop_after is not None:
        seconds("--stop-after", words.stop_after)
    given: dict[str, Any] = {}
    for place, names in PLACE_ONLY.items():
        chosen = {name: getattr(words, name) for name in names if getattr(words, name) is not None}
        if chosen and words.on != place:
            raise BadSetting(f"--{min(chosen)} goes with --on {place}, got --on {words.on}")
        given |= chosen
    return {"slurm": slurm_options(**given)} if words.on == "slurm" else given


def _print(words: argparse.Namespace, swept: Swept) -> None:
    from headrace.sweep.display import table
    from headrace.sweep.status import counts, seconds_left

    found = swept.standings
    facts = {**counts(found)._asdict(), "interrupted": swept.interrupted, "seconds_left": seconds_left(found)}
    put(words, {"out": words.out, **facts, "runs": [s.as_json() for s in found]}, table(found))
