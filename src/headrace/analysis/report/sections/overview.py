"""What was run, how far it got, what went wrong, on which machines and at what cost."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.analysis.records import STATES, Record, finite_or_nan
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.report.parts import Body, Section, together
from headrace.analysis.report.tables import framed, table_files
from headrace.analysis.score_tables import coverage_table
from headrace.analysis.scores import Group
from headrace.analysis.table import NOTHING
from headrace.errors import HeadraceError, counted
from headrace.runs.folder import SPEED
from headrace.runs.tables import last_rows
from headrace.training.curve import step_label

LISTED = 50  # rows of a table of troubles


def overview(context: Context) -> Section:
    found = context.found
    inputs = (tuple(found.records), tuple(found.problems), found.foreign)
    return Section("overview", "Overview", inputs, partial(_body, context))


def _body(context: Context) -> Body:
    records = context.found.records
    if not records:
        return Body(join([tag("p", f"There is no run in {context.root} yet."), _notices(context)]))
    return together(
        Body(join([_progress(records), _tiles(context)])),
        *(_coverage(context, group) for group in context.groups),
        Body(join([_troubles(context), _notices(context), _machines(records)])),
    )


def _progress(records: Sequence[Record]) -> Html:
    counts = Counter(record.state for record in records)
    share = [(state, counts[state]) for state in STATES if counts[state]]
    words = ", ".join(f"{count:,} {state}" for state, count in share)
    bar = [tag("rect", x=x, y=0, width=width, height=1, class_=f"f-{state}") for state, x, width in _bars(share)]
    picture = tag("svg", bar, viewBox=f"0 0 {max(1, len(records))} 1", preserveAspectRatio="none", class_="progress",
                  role="img", aria_label=words)  # fmt: skip
    return join([picture, tag("p", words + ".", class_="note")])


def _bars(share: Iterable[tuple[str, int]]) -> list[tuple[str, int, int]]:
    found, start = [], 0
    for state, count in share:
        found.append((state, start, count))
        start += count
    return found


def _tiles(context: Context) -> Html:
    records = context.found.records
    done = sum(record.state == "finished" for record in records)
    hours = [hours_of(record) for record in records]
    known = [h for h in hours if not math.isnan(h)]
    tiles = [
        ("runs finished", f"{done:,}", f"of {len(records):,}"),
        ("environment steps", step_label(_three(sum(record.step for record in records))), "logged"),
        ("agents", f"{len(context.charted):,}", ""),
        ("environments", f"{len({record.env for record in records}):,}", ""),
        ("machine time", _time(sum(known)), f"of {counted(len(known), 'run')}" if len(known) < len(records) else ""),
        ("speed of a run, median", _speed(records), "steps/s"),
    ]
    shown = [
        tag("div", tag("dt", name), tag("dd", value, " ", tag("small", rest)), class_="tile card")
        for name, value, rest in tiles
    ]
    return tag("dl", shown, class_="tiles")


def _three(value: float) -> float:
    return float(f"{value:.3g}")


def seconds_of(record: Record) -> float:
    """How long the run took: as its manifest says, or as it logged last; NaN where neither does."""
    seconds = finite_or_nan(record.manifest.get("seconds"))
    return _logged_seconds(record) if math.isnan(seconds) else seconds


def _logged_seconds(record: Record) -> float:
    try:
        logged = last_rows(record.path / SPEED, 1).get("seconds", np.empty(0))
    except HeadraceError:
        return math.nan
    return float(logged[-1]) if len(logged) else math.nan


def hours_of(record: Record) -> float:
    """Hours of a machine that the run took: its share, where it was one of the streams of a fleet."""
    return seconds_of(record) / max(1.0, finite_or_nan(record.manifest.get("streams", 1))) / 3600


def rate_of(record: Record) -> float:
    """Steps per second of the run over all its time, whatever else the machine did meanwhile."""
    seconds = seconds_of(record)
    return record.step / seconds if seconds > 0 and record.step else math.nan


def _speed(records: Sequence[Record]) -> str:
    rates = sorted(rate for rate in map(rate_of, records) if not math.isnan(rate))
    return step_label(_three(rates[len(rates) // 2])) if rates else NOTHING


def _time(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"


def _coverage(context: Context, group: Group) -> Body:
    """How many of the seeds each agent has finished in each environment."""
    heads = [_head("agent", "words"), *(_head(env.partition("/")[2] or env) for env in group.envs)]
    counts = Counter((r.agent, r.env) for r in group.records if r.state == "finished")
    begun = Counter((r.agent, r.env) for r in group.records)
    rows = [
        [
            tag("th", context.named(agent), scope="row"),
            *(_covered(counts[agent, env], begun[agent, env], len(group.seeds)) for env in group.envs),
        ]
        for agent in group.agents
    ]
    files = table_files(coverage_table(group))
    title = f"{group.title}: finished runs of {counted(len(group.seeds), 'seed')}"
    return Body(tag("div", framed(title, heads, rows, files), data_tab=context.tab(group) or None), {}, files)


def _head(name: str, kind: str | None = None) -> Html:
    return tag("th", name, scope="col", class_=kind)


def _covered(done: int, begun: int, wanted: int) -> Html:
    kind = "whole" if done == wanted else "some" if begun else "gone"
    going = f" + {begun - done} begun" if begun > done else ""
    return tag("td", f"{done}/{wanted}{going}" if begun else "none", class_=kind)


def _troubles(context: Context) -> Html:
    """Runs that failed or diverged, and why."""
    found = [record for record in context.found.records if record.state in ("failed", "diverged")]
    if not found:
        return Html("")
    rows = [
        [
            tag("th", tag("a", record.name, href=f"#run-{context.key(record)}"), scope="row"),
            tag("td", tag("span", record.state, class_=f"state {record.state}"), class_="words"),
            tag("td", f"{record.step:,}"),
            tag("td", record.cause or "no cause was recorded", class_="words long"),
        ]
        for record in found[:LISTED]
    ]
    heads = [_head("run", "words"), _head("state", "words"), _head("step"), _head("cause", "words")]
    left = f", the first {LISTED}" if len(found) > LISTED else ""
    return framed(f"Runs that failed or diverged: {len(found):,}{left}", heads, rows, {})


def _notices(context: Context) -> Html:
    said = context.found.notices()
    if not said:
        return Html("")
    shown = [tag("li", line) for line in said[:LISTED]]
    more = [tag("li", f"and {len(said) - LISTED:,} more")] if len(said) > LISTED else []
    return join([tag("h3", "What was passed over"), tag("ul", shown, more)])


def _machines(records: Sequence[Record]) -> Html:
    """Where the runs were made: one row for each kind of machine and set of versions."""
    places: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in records:
        places[_machine(record)].append(record)
    rows = [
        [
            tag("th", words[0], scope="row"),
            *(tag("td", word, class_="words") for word in words[1:]),
            tag("td", f"{len(found):,}"),
            tag("td", _time(sum(h for r in found if not math.isnan(h := hours_of(r))))),
        ]
        for words, found in sorted(places.items(), key=lambda item: -len(item[1]))[:LISTED]
    ]
    wordy = [_head(name, "words") for name in ("processor", "device", "engine", "Python", "JAX", "commit")]
    return framed("Machines and cost", [*wordy, _head("runs"), _head("time")], rows, {})


def _machine(record: Record) -> tuple[str, ...]:
    facts: dict[str, Any] = record.manifest["machine"] if isinstance(record.manifest.get("machine"), dict) else {}
    cores = f", {facts['cores']} cores" if facts.get("cores") else ""
    commit = str(record.manifest.get("commit") or NOTHING)
    dirty = "-dirty" if commit.endswith("-dirty") else ""
    words = [f"{facts.get('cpu') or 'unknown'}{cores}", facts.get("device"), record.engine, facts.get("python")]
    return tuple(str(word or NOTHING) for word in [*words, facts.get("jax"), commit[:8] + dirty])
