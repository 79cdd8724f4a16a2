"""The list of all runs, and each run's own page, with its latents where `headrace latents` has looked at them."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.analysis.latents import AtStep, Latents, read_latents, read_points
from headrace.analysis.records import STATES, Record
from headrace.analysis.report import charts
from headrace.analysis.report.charts import number, numbers, points, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.report.parts import Body, Section, heading, over_steps, panel, panels, together
from headrace.analysis.report.quantities import quantity
from headrace.analysis.report.sections.overview import hours_of, rate_of
from headrace.analysis.report.tables import framed
from headrace.errors import HeadraceError, counted
from headrace.runs.folder import SPEED, RunFolder
from headrace.runs.manifest import why_not_exact
from headrace.runs.tables import Columns, sampled_rows
from headrace.training.curve import step_label

POINTS = 250  # of a chart on a run's page
COLUMNS = ("key", "name", "agent", "env", "seed", "steps", "step", "state", "score", "points", "rate", "hours")
SHOWN = 1500  # points of a t-SNE picture: more only cover each other


def runs(context: Context) -> Section:
    """The frame of the list; its rows are `run_rows`."""
    counts = Counter(record.state for record in context.found.records)
    present = tuple((state, counts[state]) for state in STATES if counts[state])
    return Section("runs", "Runs", present, lambda: Body(_frame(present)))


def _frame(present: tuple[tuple[str, int], ...]) -> Html:
    states = [_state_button("", "all"), *(_state_button(state, f"{state} {count:,}") for state, count in present)]
    search = tag(
        "input", type="search", placeholder="filter: words such as qrc breakout seed3", aria_label="filter the runs"
    )
    leaf = [_leaf(-1, "← back"), _leaf(1, "next →")]
    count = tag("span", class_="count note", role="status")
    table = tag("table", tag("thead", tag("tr")), tag("tbody"))
    note = "A star marks a score that is the mean of fewer than 50 log points. A click on an agent opens the run."
    tools = [tag("div", search, states, class_="tools"), tag("div", leaf, count, class_="tools")]
    return join([tag("p", note, class_="soft"), *tools, tag("div", table, class_="scroll card")])


def _state_button(state: str, text: str) -> Html:
    return tag("button", text, type="button", class_="small", data_state=state, aria_pressed="false")


def _leaf(by: int, text: str) -> Html:
    return tag("button", text, type="button", class_="small", data_leaf=by)


def run_rows(context: Context) -> dict[str, Any]:
    """Every run in brief, as rows for the list."""
    rows = [_row(context, record) for record in context.found.records]
    version = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]
    return {"columns": COLUMNS, "rows": rows, "version": version}


def _row(context: Context, r: Record) -> list[Any]:
    mean, points = (number(r.score.mean), r.score.points) if r.score else (None, 0)
    place = [context.key(r), r.name, context.number(r.agent), r.env, r.seed, r.steps, r.step, r.state]
    return [*place, mean, points, number(rate_of(r)), number(hours_of(r))]


def run_page(context: Context, record: Record, video: Html) -> Body:
    """Everything that a run logged, against steps."""
    title = tag("h2", context.named(record.agent), f" on {record.env}, seed {record.seed}", tabindex=-1)
    try:
        logged, speed = _thinned(record.table()), sampled_rows(record.path / SPEED, POINTS)
        played, trouble = RunFolder.read(record.path).evaluations(), Html("")
    except (HeadraceError, OSError) as error:
        logged, speed, played, trouble = {}, {}, {}, tag("p", f"Its tables cannot be read: {error}", class_="gone")
    head = Body(join([title, _facts(record), video, trouble]))
    shown = [_evaluations(context, record, played)] if len(played.get("step", ())) else []
    shown += [_metric(context, record, name, "logged", logged[name]) for name in logged if name != "step"]
    shown += [_metric(context, record, "steps_per_s", "timed", speed["steps_per_s"])] if speed else []
    tables = {"logged": logged, "timed": speed, "evaluated": played}
    grids = {name: numbers(table["step"], 9) for name, table in tables.items() if table}
    return together(head, replace(panels(*shown), grids=grids), latents_body(record))


def _thinned(table: Columns) -> Columns:
    """At most POINTS rows, the last among them."""
    rows = len(table.get("step", ()))
    kept = slice((rows - 1) % (stride := -(-rows // POINTS) or 1), None, stride)
    return {name: values[kept] for name, values in table.items()}


def _metric(context: Context, record: Record, name: str, grid: str, values: np.ndarray) -> Body:
    what = quantity(name)
    line = series(context.number(record.agent), what.label, values)
    title, y = f"{what.label}: {what.about}", charts.axis(what.label, what.unit)
    return over_steps(f"run-{name}", record.steps, title, y, [line], grid, always=True)


def _evaluations(context: Context, record: Record, played: Columns) -> Body:
    """What frozen copies scored during training: the mean, and a standard deviation to both sides."""
    mean, std, count = played["mean"], played["std"], int(played["episodes"][-1])
    line = series(context.number(record.agent), f"mean of {counted(count, 'episode')}", mean, mean - std, mean + std)
    title = "Evaluations: return of a frozen copy, with one standard deviation"
    y = charts.axis("return", "raw reward")
    return over_steps("run-evaluations", record.steps, title, y, [line], "evaluated", always=True)


def _facts(record: Record) -> Html:
    score = f"{record.score.mean:.4g} (mean of {record.score.points} log points)" if record.score else ""
    facts = [
        ("state", tag("span", record.state, class_=f"state {record.state}")),
        ("steps", f"{record.step:,} of {record.steps:,}"),
        ("score", score or "no episode has ended yet"),
        ("time", _hours(record)),
        ("cause", record.cause),
        ("engine", record.engine),
        ("started", record.manifest.get("start")),
        ("ended", record.manifest.get("end")),
        ("continued", _resumed(record.manifest)),
        ("exact", f"no: {why}" if (why := why_not_exact(record.manifest)) else ""),
        ("machine", _machine(record.manifest)),
        ("commit", record.manifest.get("commit")),
        ("digest", record.manifest.get("digest")),
        ("folder", tag("code", str(record.path))),
    ]
    return tag("dl", [(tag("dt", name), tag("dd", value)) for name, value in facts if value], class_="facts")


def _hours(record: Record) -> str:
    hours, rate = hours_of(record), rate_of(record)
    return "" if math.isnan(hours) else f"{hours:.3g} machine hours, {rate:,.0f} steps/s"


def _resumed(manifest: Mapping[str, Any]) -> str:
    found = manifest.get("resumed")
    steps = [str(one.get("step")) for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return f"from step {', '.join(steps)}" if steps else ""


def _machine(manifest: Mapping[str, Any]) -> str:
    facts = manifest.get("machine")
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value) if isinstance(facts, Mapping) else ""


def latents_body(record: Record) -> Body:
    """Effective rank, silent units, weights and t-SNE at the checkpoints; a hint where there is no analysis yet."""
    found = read_latents(record.path)
    if found is None or not found.steps:
        command = tag("code", f"headrace latents '{record.path}'")
        return Body(tag("p", "No analysis of its latents yet: ", command, " makes one.", class_="note"))
    about = f"{found.observations:,} observations of {found.env} on one fixed trajectory, policy: {found.policy}."
    drawn = panels(_ranks(record, found), _silence(record, found), _norms(record, found), *_planes(record))
    return together(heading("Latents over training", about), drawn, Body(_probes(found.last)))


def _over_time(record: Record, found: Latents, name: str, title: str, y: dict, values: dict[str, list[float]]) -> Body:
    drawn = [{**series(None, label, line), "shade": i} for i, (label, line) in enumerate(values.items())]
    steps = [at.step for at in found.steps]
    return over_steps(f"run-{name}", record.steps, title, y, drawn, steps, always=True, legend=True)


def _ranks(record: Record, found: Latents) -> Body:
    y = charts.axis("effective rank", "dimensions", min=0)
    values = {
        "uncentred": [at.effective_rank for at in found.steps],
        "centred": [at.effective_rank_centred for at in found.steps],
    }
    return _over_time(record, found, "rank", f"Effective rank of the latents (of {found.last.features:,})", y, values)


def _silence(record: Record, found: Latents) -> Body:
    values: dict[str, list[float]] = {}
    for layer in found.last.silence:
        for kind in ("dead", "dormant"):
            shares = [getattr(at.silence.get(layer), kind, math.nan) for at in found.steps]
            values[f"{layer}, {kind}"] = shares
    return _over_time(record, found, "silence", "Silent units", charts.axis("units", "share", min=0), values)


def _norms(record: Record, found: Latents) -> Body:
    names = list(dict.fromkeys(name for at in found.steps for name in at.norms))
    values = {name: [at.norms.get(name, float("nan")) for at in found.steps] for name in names}
    y = charts.axis("norm of the weights", "parameters", min=0)
    return _over_time(record, found, "norms", "Weights of each module", y, values)


def _planes(record: Record) -> list[Body]:
    return [
        panel(
            f"run-tsne-{step}-{perplexity:g}",
            points(f"t-SNE at step {step_label(step)}, perplexity {perplexity:g}", _thinned_plane(plane)),
        )
        for (step, perplexity), plane in sorted(read_points(record.path).items())
    ]


def _thinned_plane(plane: np.ndarray) -> np.ndarray:
    return plane[np.linspace(0, len(plane) - 1, min(len(plane), SHOWN)).round().astype(int)]


def _probes(last: AtStep) -> Html:
    """How well a linear reader of the latent tells the game's state."""
    if not last.probes:
        return Html("")
    rows = [
        [
            tag("th", name, scope="row"),
            tag("td", "R²" if probe.kind == "r2" else probe.kind),
            *(tag("td", f"{value:.3f}") for value in (probe.latent, probe.observation, probe.chance)),
        ]
        for name, probe in sorted(last.probes.items())
    ]
    names = ("state of the game", "measure", "from the latent", "from the observation", "by chance")
    heads = [tag("th", name, scope="col", class_=None if i else "words") for i, name in enumerate(names)]
    return framed(f"Linear probes of the game's state at step {last.step:,} (held out)", heads, rows, {})
