"""The command `headrace show`: what a run is, how far it got, how well it does."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from headrace.agents import agent_of
from headrace.analysis.records import agent_label, env_labels
from headrace.cli.output import put
from headrace.errors import HeadraceError, counted
from headrace.part import is_at_hand
from headrace.runs import packs
from headrace.runs.checkpoints import Checkpoint, final_arrays
from headrace.runs.folder import METRICS, RunFolder, damage, score
from headrace.runs.manifest import require_run, why_ended, why_not_exact
from headrace.runs.tables import Columns, newest_step
from headrace.training.progress import short_steps
from headrace.training.run import run_of

ABOUT = "what a run is, how far it got and how well it does"
WIDTH = 90  # letters of a line of settings
CHANGED = "its digest is not the one with which it finished: a table or checkpoint was changed since"
CURVE_WIDTH, HEIGHT = 56, 5  # letters
BLOCKS, PLAIN = " ▁▂▃▄▅▆▇█", " .:#"


def add_words(parser: argparse.ArgumentParser, number: Callable[[str], float]) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder as `train` names it, or zoo/NAME")


def run(words: argparse.Namespace) -> int:
    found = [describe(path) for path in words.runs]
    facts = [facts for facts, _ in found]
    put(words, facts if len(facts) > 1 else facts[0], "\n\n".join("\n".join(_lines(*one)) for one in found))
    return 0


def describe(path: str | Path) -> tuple[dict[str, Any], Columns]:
    """A run in brief, and its log. What cannot be read is listed in the notices."""
    folder, notices = RunFolder.read(path), list[str]()
    facts = folder.manifest
    identity = facts["identity"]
    try:
        require_run(identity)
    except ValueError as error:
        raise HeadraceError(f"{path} does not say which run it is: {error}") from error
    checkpoint = folder.latest()
    tables = folder.metrics, folder.speed, folder.episodes, folder.evaluations
    metrics, speed, episodes, played = (_read(table, notices) for table in tables)
    step = checkpoint.step if checkpoint else newest_step(folder.path / METRICS, metrics)
    seconds = facts.get("seconds", float(sum(speed.get("seconds", ())[-1:])))
    changed, digest = damage(folder.path, facts), _digest(folder, checkpoint)
    found = None if changed else score(metrics)
    if digest != facts.get("digest", digest) and facts["status"] == "finished" and not changed:
        notices.append(CHANGED)
    result = {
        "path": str(path),
        "name": agent_label(identity["agent"], facts.get("agent", "unknown")),
        "manifest": facts,
        "status": folder.status,
        "damage": changed or None,
        "cause": why_ended(facts) or None,
        "why_not_exact": why_not_exact(facts) or None,
        "env": _env(identity["env"]),
        "steps_done": step,
        "steps": identity["steps"],
        "seconds": seconds or None,
        "steps_per_s": step / seconds if seconds else None,
        "episodes": None if packs.holder(folder.path) else len(episodes.get("return", ())),  # packs keep none
        "score": found.mean if found else None,
        "score_points": found.points if found else 0,
        "evaluations": [dict(zip(played, map(float, row), strict=True)) for row in zip(*played.values(), strict=True)],
        "digest": digest,
        "notices": [*folder.notices, *notices],
    }
    return result, metrics


def _env(env: dict[str, Any]) -> str:
    """The environment's name, and the rules that are not the usual ones."""
    suite, name = env_labels(env)
    return name + suite.removeprefix(name.partition("/")[0])


def _read(table: Callable[[], Columns], notices: list[str]) -> Columns:
    try:
        return table()
    except (HeadraceError, OSError) as error:
        notices.append(str(error))
        return {}


def _digest(folder: RunFolder, checkpoint: Checkpoint | None) -> str | None:
    """Of the newest checkpoint and the episodes; of a run that kept none, what it finished with."""
    try:
        return folder.digest(final_arrays(checkpoint.arrays)) if checkpoint else folder.manifest.get("digest")
    except (HeadraceError, OSError):
        return None


def _lines(found: dict[str, Any], metrics: Columns) -> Iterator[str]:
    facts = found["manifest"]
    identity = facts["identity"]
    yield f"{found['name']} on {found['env']}, seed {identity['seed']}, engine {identity.get('engine', 'unknown')}"
    told = {
        "status": found["status"],
        "damaged": found["damage"],
        "cause": found["cause"],
        "exact": f"no: {found['why_not_exact']}" if found["why_not_exact"] else "",
        "steps": f"{found['steps_done']:,} of {found['steps']:,} ({found['steps_done'] / found['steps']:.0%})",
        "speed": _speed(found),
        "episodes": "not kept" if found["episodes"] is None else f"{found['episodes']:,}",
        "score": score_text(found) if found["score_points"] else "",
        "evaluated": _evaluated(found["evaluations"]),
        "started": facts.get("start"),
        "commit": facts.get("commit") or "unknown",
        "digest": found["digest"] or "-",
        "command": _command(identity),
        "settings": _settings(identity),
    }
    yield from (f"{name:9} {words}" for name, words in told.items() if words)
    yield from (f"note      {notice}" for notice in found["notices"])
    if "return" in metrics and (curve := text_curve(metrics["step"], metrics["return"], plain=not _shows(BLOCKS))):
        yield from ("", "mean return of the last 100 episodes", *curve)


def _speed(found: dict[str, Any]) -> str:
    if not found["steps_per_s"]:
        return ""
    return f"{found['steps_per_s']:,.0f} steps/s, {found['seconds']:,.0f} s in all"


def _evaluated(rows: list[dict[str, float]]) -> str:
    """The last evaluation of a frozen copy, and the best where that was another."""
    if not rows:
        return ""
    best = max(rows, key=lambda row: row["mean"])
    told, most = ("{mean:.4g} +- {std:.3g} at step {step:,.0f}".format(**row) for row in (rows[-1], best))
    return f"{told}, over {counted(int(rows[-1]['episodes']), 'episode')}{f'; best {most}' if most != told else ''}"


def score_text(found: dict[str, Any]) -> str:
    """A score with what it is: of the last log points, 50 of them unless a run is young."""
    points = counted(found["score_points"], "log point")
    return f"{found['score']:.4g} (return of 100 episodes, mean of the last {points})"


def _command(identity: dict[str, Any]) -> str:
    """What trains such a run; empty where this version cannot."""
    try:
        return run_of(identity).command if is_at_hand(identity) else ""
    except HeadraceError:
        return ""


def _settings(identity: dict[str, Any]) -> str:
    """Every setting of the agent, as the expression that builds it."""
    if not is_at_hand(identity["agent"]):
        return "with parts of another package, which is not imported for this"
    try:
        whole = repr(agent_of(identity["agent"]))
    except HeadraceError as error:
        return f"of another version: {error}"
    return "\n          ".join(textwrap.wrap(whole, WIDTH, break_long_words=False, break_on_hyphens=False))


def _shows(letters: str) -> bool:
    """Whether standard output can show these letters."""
    try:
        letters.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def text_curve(steps: np.ndarray, values: np.ndarray, *, plain: bool = False) -> list[str]:
    """Columns from the lowest value to the highest, each the mean over its share of the steps; nothing without a value.

    `plain` draws with letters that every terminal has.
    """
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if len(values) < 2:
        return []
    columns = np.array([part.mean() for part in np.array_split(values, min(CURVE_WIDTH, len(values)))])
    columns = np.repeat(columns, CURVE_WIDTH // len(columns))
    low, high = float(columns.min()), float(columns.max())
    share = (columns - low) / (high - low) if high > low else np.full(len(columns), 0.5)
    marks = PLAIN if plain else BLOCKS
    levels = np.rint(share * (HEIGHT * (len(marks) - 1) - 1)).astype(int) + 1  # the lowest is still seen
    ends = [f"{high:.3g}", *[""] * (HEIGHT - 2), f"{low:.3g}"]
    margin = max(map(len, ends))
    rows = [f"{end:>{margin}} {'|' if plain else '│'}{_row(levels, marks, row)}" for row, end in enumerate(ends)]
    first, last = (short_steps(int(step)) for step in (steps[0], steps[-1]))
    return [*rows, f"{'':{margin}}  {first}{last:>{max(len(columns) - len(first), len(last) + 1)}} steps"]


def _row(levels: np.ndarray, marks: str, row: int) -> str:
    """A row of the picture, the top one being row 0."""
    full = len(marks) - 1
    return "".join(marks[level] for level in np.clip(levels - (HEIGHT - 1 - row) * full, 0, full)).rstrip()
