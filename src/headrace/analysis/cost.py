"""What runs cost: time, parameters and memory, as their manifests say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.analysis.paper import table
from headrace.analysis.records import Record, finite_or_nan
from headrace.analysis.scores import Group
from headrace.analysis.table import NOTHING, Cell, Table, number, signed, spread

PAPER_COST = ("atari", 10_000_000)  # what the paper measured: 40M frames on four cores


class Cost(NamedTuple):
    """Means over finished runs of one agent; NaN where no run says."""

    hours: float  # of one stream: a fleet's time is shared by its streams
    hours_std: float
    wall_hours: float
    streams: float  # trained together
    steps_per_s: float  # of one stream
    parameters: float
    memory_gb: float  # the most that the process had
    machines: tuple[str, ...]
    runs: int


def cost_of(records: Iterable[Record]) -> Cost:
    done = [r for r in records if r.state == "finished"]
    streams = np.array([max(1.0, finite_or_nan(r.manifest.get("streams", 1))) for r in done])
    hours = np.array([finite_or_nan(r.manifest.get("seconds")) / 3600 for r in done])
    steps = np.array([r.steps for r in done], float)
    share = hours / streams
    return Cost(
        _mean(share),
        float(np.nanstd(share)) if np.isfinite(share).any() else math.nan,
        _mean(hours),
        _mean(streams),
        _mean(steps / (3600 * hours)),
        _mean(np.array([finite_or_nan(r.manifest.get("parameters")) for r in done])),
        _mean(np.array([finite_or_nan(r.manifest.get("peak_memory_mb")) for r in done])) / 1000,
        tuple(sorted({machine_of(r) for r in done})),
        len(done),
    )


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def machine_of(record: Record) -> str:
    """The machine in a few words: its accelerator where it had one, else its CPU."""
    machine = record.manifest.get("machine")
    if not isinstance(machine, dict):
        return "unknown"
    device = str(machine.get("device") or "")
    cpu = f"{machine.get('cpu') or 'unknown CPU'}, {machine.get('cores') or '?'} cores"
    return device.partition(": ")[2] if device and not device.startswith("cpu") else cpu


def _paper_costs(group: Group) -> dict[str, dict[str, str]]:
    return {row["agent"]: row for row in table("cost")} if (group.suite, group.steps) == PAPER_COST else {}


def cost_table(groups: Sequence[Group]) -> Table:
    """Time, parameters and memory of every agent, beside the paper's for 40M Atari frames."""
    rows, data, machines = [], [], dict[str, None]()
    for group in groups:
        paper = _paper_costs(group)
        for agent in group.agents:
            cost = cost_of(group.runs_of(agent))
            if not cost.runs:
                continue
            machines.update(dict.fromkeys(cost.machines))
            rows.append([Cell(group.title), Cell(agent), *_cells(cost, paper.get(agent))])
            data.append(_row(group, agent, cost, paper.get(agent)))
    header = ["suite", "agent", "hours a run", "streams at once", "steps/s of one", "parameters", "memory, GB"]
    notes = [
        "Hours a run: the time its process took, divided by the streams that it trained at once",
        "Memory: the most that the process held, all its streams together",
        *(["The paper's hours and memory are of four CPU cores"] if any(map(_paper_costs, groups)) else []),
        *(f"Machine: {machine}" for machine in machines),
    ]
    return Table("cost", "Cost of a run", header, rows, data, notes)


def _cells(cost: Cost, paper: dict[str, str] | None) -> list[Cell]:
    hours = Cell(_hours(cost))
    memory = Cell(number(cost.memory_gb))
    parameters = Cell(f"{cost.parameters:,.0f}" if math.isfinite(cost.parameters) else NOTHING)
    if paper:
        theirs = float(paper["hours"])
        hours = Cell(hours.text, spread(theirs, float(paper["hours_std"])), signed(cost.hours - theirs))
        memory = Cell(memory.text, spread(float(paper["memory_gb"]), float(paper["memory_gb_std"])))
        parameters = Cell(parameters.text, f"{paper['parameters_million']}M")
    return [hours, Cell(f"{cost.streams:.0f}"), Cell(number(cost.steps_per_s)), parameters, memory]


def _hours(cost: Cost) -> str:
    """With the spread over runs, where there are several that did not share one clock."""
    if not math.isfinite(cost.hours):
        return NOTHING
    differ = cost.hours_std > 1e-6 * cost.hours
    return f"{cost.hours:.3g} ± {cost.hours_std:.2g}" if differ else f"{cost.hours:.3g}"


def _row(group: Group, agent: str, cost: Cost, paper: dict[str, str] | None) -> dict[str, Any]:
    ours = {name: value for name, value in cost._asdict().items() if name != "machines"}
    theirs = {f"paper_{name}": float(value) for name, value in (paper or {}).items() if name != "agent"}
    place = {**group.columns, "agent": agent}
    return {**place, **ours, "machines": "; ".join(cost.machines), **theirs}
