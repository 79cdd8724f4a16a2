"""The command `headrace reproduce`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.output import notify, put
from headrace.cli.sweep import add_place_words, exit_status, place_of, sweep_as_told
from headrace.errors import BadSetting
from headrace.training.run import Run

if TYPE_CHECKING:
    from headrace.reproduce.plans import PaperTable
    from headrace.sweep.driver import Swept

ABOUT = "train the runs of a table of the paper, or continue them, and report on them"
REPORT = "report"  # beside the runs


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    add = parser.add_argument
    add("suite", metavar="TABLE", help="of the paper: minatar (225 runs), octax (360) or atari (1,950)")
    add("--steps", type=number, help="of each run, instead of the paper's (minatar and octax 5e6, atari 10e6 and 25e6)")
    add("--seeds", help="0:5 (0 to 4) or 0,3,7 (0:5)")
    add("--quick", action="store_true", help="the main comparison on one game: half an hour on two cores")
    add("--status", action="store_true", help="say what the repository's results hold of it, and train nothing")
    add("--results", default="results", metavar="FOLDER", help="where those are (results)")
    add("--out", metavar="FOLDER", help="where run folders and the report live (runs/reproduce_TABLE)")
    add_place_words(parser, number)


def run(words: argparse.Namespace) -> int:
    """0 where all runs are done and reported on, 1 where some are not done, 130 where the sweep was stopped."""
    from headrace.analysis.canvas import require_matplotlib
    from headrace.reproduce.coverage import coverage
    from headrace.reproduce.plans import runs_of

    tables = _tables(words)
    plan = runs_of(tables)
    if words.status:
        found = coverage(words.results, words.suite, plan)
        put(words, {"suite": words.suite, **found.as_json()}, found.text())
        return 0
    require_matplotlib()
    words.out = words.out or f"runs/reproduce_{words.suite}{'_quick' if words.quick else ''}"
    swept = _swept(words, tables, plan)
    return _interrupted(words, swept) if swept.interrupted else _reported(words, swept)


def _tables(words: argparse.Namespace) -> Sequence[PaperTable]:
    from headrace.reproduce.plans import QUICK, tables_of

    if not words.quick:
        return tables_of(words.suite, steps=words.steps, seeds=words.seeds)
    tables_of(words.suite)
    if words.suite != "minatar":
        raise BadSetting(f"--quick goes with minatar, got {words.suite}")
    if words.steps is not None or words.seeds is not None:
        raise BadSetting("--quick says which runs there are; --steps and --seeds go with the whole table")
    return [QUICK]


def _swept(words: argparse.Namespace, tables: Sequence[PaperTable], plan: list[Run]) -> Swept:
    from headrace.errors import counted
    from headrace.sweep.status import resolved, standings

    place_of(words)
    left = [s for s in standings(resolved(plan, words.on, words.out), words.out) if s.state != "done"]
    titles = " and ".join(table.title for table in tables)
    _say(f"{titles}: {counted(len(plan), 'run')}, {len(left)} to do, in {words.out}; the same command continues")
    return sweep_as_told(words, plan)


def _interrupted(words: argparse.Namespace, swept: Swept) -> int:
    from headrace.sweep.display import summary

    text = f"stopped and saved, the same command continues: {words.out}  {summary(swept.standings)}"
    put(words, {**_facts(words, swept), "page": None}, text)
    return exit_status(swept)


def _reported(words: argparse.Namespace, swept: Swept) -> int:
    """The report on what there is; its place is the last line."""
    from headrace.analysis.report.folder import write_report
    from headrace.reproduce.latents import analyse_all
    from headrace.sweep.display import summary
    from headrace.sweep.workers import available_cores

    if not words.quick:
        done = sorted((s for s in swept.standings if s.state == "done"), key=lambda s: s.run.env.label)
        analyse_all([s.path for s in done], len(available_cores()), _say)
    written = write_report(words.out, Path(words.out) / REPORT)
    notify(written.notices)
    for standing in swept.standings:
        if standing.state != "done":
            _say(f"{standing.state}: {standing.run.name} {standing.cause}".rstrip())
    facts = {**_facts(words, swept), "page": str(written.page)}
    put(words, facts, f"{summary(swept.standings)}; the report is {written.page}")
    return exit_status(swept)


def _facts(words: argparse.Namespace, swept: Swept) -> dict[str, Any]:
    from headrace.sweep.status import counts

    return {"out": str(words.out), **counts(swept.standings)._asdict(), "interrupted": swept.interrupted}


def _say(text: str) -> None:
    notify([text])
