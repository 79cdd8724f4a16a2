"""Ablations: the settings that were varied around a variant, each against the paper's numbers where it has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from headrace.agents import VARIANTS, agent_named, name_of, tweak
from headrace.analysis.paper import METRICS, Value, aggregates, even_unit, paper_cell, paper_unit, table, told
from headrace.analysis.score_tables import METRIC_TITLES
from headrace.analysis.scores import Group
from headrace.analysis.stats import Interval, interval, mean, task_means
from headrace.analysis.table import Cell, Table, between

PAPER_ABLATIONS = ("atari", 10_000_000)


@dataclass(frozen=True)
class Ablation:
    """A question, and the agents that answer it: (what is different, the agent's name), the usual one among them."""

    name: str
    title: str
    agents: tuple[tuple[str, str], ...]


def _settings(base: str, path: str, *values: str) -> tuple[tuple[str, str], ...]:
    return tuple((value, name_of(tweak(agent_named(base), f"{path}={value}"))) for value in values)


@cache
def known() -> tuple[Ablation, ...]:
    """The paper's ablations, and others around the same agents."""
    spr, orth = "qrc+spr", "qrc+spr+orth"
    gates = ("Always", "Every(2)", "Every(5)", "Every(10)", "Greedy")
    plain = (("online, augmented", spr), ("tau 0.99, as it is", "qrc+spr+tau99"))
    errors = (
        ("as specified", orth), ("with four of them", "released-four"), ("as released", "released"),
        ("as released, descending", "released-down"),
    )  # fmt: skip
    return (
        Ablation("horizon", "Prediction depth K", _settings(spr, "aux.objective.horizon", "1", "3", "5", "10")),
        Ablation("weight", "Weight of SPR", _settings(spr, "aux.weight", "0.5", "1.0", "2.0")),
        Ablation("target", "Target and augmentation", plain),
        Ablation("shift", "Shift, pixels", _settings(spr, "aux.objective.augment.shift", "0", "1", "2", "4")),
        Ablation("replay", "Memory of DQN", (("1", "dqn"), ("5", "dqn+replay5"), ("1, with SPR", "dqn+spr"))),
        Ablation("objective", "What is learnt beside", (("SPR", spr), ("CURL", "qrc+curl"), ("nothing", "qrc"))),
        Ablation("period", "SPR on", _settings(spr, "aux.gate", *gates)),
        Ablation("beta", "Memory of orth, beta", _settings(orth, "aux.filter.beta", "0.9", "0.99", "0.999")),
        Ablation("history", "History of orth", _settings(orth, "aux.filter.history", "Raw", "Projected", "RawCurrent")),
        Ablation("released", "The released code's errors", errors),
    )


@cache
def _paper() -> dict[tuple[str, str], dict[str, Value]]:
    found: dict[tuple[str, str], dict[str, Value]] = {}
    for row in table("ablations"):
        settings = [row["setting"]] if row["setting"] else []
        agent = name_of(tweak(agent_named(row["agent"]), *settings))
        value = Value(float(row["mean"]), float(row["std"]))
        found.setdefault((row["ablation"], agent), {})[row["metric"]] = value
    return found


def present(group: Group) -> list[Ablation]:
    """The ablations of which the group has at least two agents, with those only; then every other setting there is.

    The nine variants alone vary no setting: they are paper_cell everywhere else.

    Agents that belong to no known ablation are paper_cell with the variant that they were made from.
    """
    found = [Ablation(a.name, a.title, tuple(pair for pair in a.agents if pair[1] in group.agents)) for a in known()]
    found = [a for a in found if len(a.agents) > 1 and not {agent for _, agent in a.agents} <= set(VARIANTS)]
    told = {agent for ablation in known() for _, agent in ablation.agents} | set(VARIANTS)
    by_base: dict[str, list[tuple[str, str]]] = {}
    for agent in group.agents:
        base, _, settings = agent.partition(" ")
        if agent not in told:
            by_base.setdefault(base, []).append((settings or agent, agent))
    for base, others in by_base.items():
        usual = [("as named", base)] if base in group.agents and (base, base) not in others else []
        found.append(Ablation(f"settings_of_{base}", f"Settings of {base}", (*usual, *others)))
    return found


def effect(group: Group, agent: str, rng: np.random.Generator) -> Interval:
    """The mean over tasks with its interval, in the unit that puts tasks on one scale."""
    return interval(group.matrix(agent, even_unit(group.suite)), mean, rng)


def ablation_table(groups: Iterable[Group], rng: np.random.Generator) -> Table:
    """Every ablation of every group: the paper's three aggregates, and the mean with its interval."""
    rows, data, notes = [], [], []
    for group in groups:
        unit = paper_unit(group.suite)
        paper = _paper() if (group.suite, group.steps) == PAPER_ABLATIONS else {}
        for ablation in present(group):
            for value, agent in ablation.agents:
                means = task_means(group.matrix(agent, unit))
                ours = aggregates(means[np.isfinite(means)])
                theirs = paper.get((ablation.name, agent), {})
                scaled = effect(group, agent, rng)
                cells = [paper_cell(ours.get(metric), theirs.get(metric)) for metric in METRICS]
                names = [group.title, ablation.title, value, agent]
                rows.append([*map(Cell, names), *cells, Cell(between(*scaled))])
                data += _rows(group, ablation, value, agent, ours, theirs, scaled)
        if present(group):
            notes.append(
                f"{group.title}: the last column is the mean of the {even_unit(group.suite).label}, 95% interval"
            )
    header = ["suite", "ablation", "value", "agent", *(METRIC_TITLES[m] for m in METRICS), "mean, one scale"]
    return Table("ablations", "Ablations (mean, median and IQM by the paper's formula)", header, rows, data, notes)


def _rows(
    group: Group,
    ablation: Ablation,
    value: str,
    agent: str,
    ours: dict[str, Value],
    theirs: dict[str, Value],
    scaled: Interval,
) -> list[dict[str, Any]]:
    place = {**group.columns, "ablation": ablation.name, "value": value, "agent": agent}
    on_one_scale = {f"scaled_{name}": x for name, x in scaled._asdict().items()}
    return [
        {
            **place, "metric": metric, **told(ours.get(metric)), **told(theirs.get(metric), "paper_"),
            **(on_one_scale if metric == "mean" else {}),
        }
        for metric in METRICS
    ]  # fmt: skip
