"""Effective ranks of a group's runs, as `headrace latents` left them beside each run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.analysis.latents import Latents, read_latents
from headrace.analysis.score_tables import compared
from headrace.analysis.scores import Group
from headrace.analysis.stats import task_means
from headrace.analysis.table import Cell, Table, signed, spread


def analysed(group: Group) -> dict[str, Latents]:
    """By run's name: the analyses of the finished runs that have one of their last step."""
    found = {r.name: read_latents(r.path) for r in group.records if r.state == "finished"}
    steps = group.steps
    return {name: latents for name, latents in found.items() if latents and latents.last.step == steps}


def rank_matrix(group: Group, agent: str, latents: dict[str, Latents]) -> np.ndarray:
    """Uncentred effective ranks at the end of training, (seeds x environments); NaN where none is known."""
    ranks = np.full((len(group.seeds), len(group.envs)), np.nan)
    for record in group.runs_of(agent):
        if record.name in latents:
            place = group.seeds.index(record.seed), group.envs.index(record.env)
            ranks[place] = latents[record.name].last.effective_rank
    return ranks


def rank_table(groups: Iterable[Group]) -> Table:
    """Mean ± population std over environments of the effective rank, uncentred and centred, beside the paper's."""
    rows, data, notes = [], [], []
    for group in groups:
        latents, paper = analysed(group), group.paper()
        for agent in group.agents:
            runs = [latents[r.name] for r in group.runs_of(agent) if r.name in latents]
            if not runs:
                continue
            means = task_means(rank_matrix(group, agent, latents))
            known, theirs = means[np.isfinite(means)], paper.ranks.get(agent)
            centred = np.array([found.last.effective_rank_centred for found in runs])
            silent = np.array([found.last.silence["encoder"] for found in runs]).mean(axis=0)
            mark, difference = compared(known, theirs)
            ours = spread(float(known.mean()), float(known.std()))
            cell = Cell(ours, spread(*theirs) if theirs else "", signed(difference) if theirs else "", mark)
            more = [spread(float(centred.mean()), float(centred.std())), str(runs[0].last.features)]
            rows.append([Cell(group.title), Cell(agent), cell, *map(Cell, more), *(Cell(f"{x:.1%}") for x in silent)])
            data.append(_row(group, agent, known, centred, silent, runs, theirs))
            if len(runs) < len(group.runs_of(agent)):
                notes.append(f"{agent}, {group.title}: {len(runs)} of {len(group.runs_of(agent))} runs were analysed")
    header = ["suite", "agent", "effective rank", "centred", "features", "dead", "dormant"]
    said = ["At the end of training, on one fixed trajectory an environment; ± over environments (centred: over runs)"]
    return Table("effective_rank", "Effective rank of the latents", header, rows, data, said + notes)


def _row(
    group: Group, agent: str, known: np.ndarray, centred: np.ndarray, silent: Any, runs: list[Latents], theirs: Any
) -> dict[str, Any]:
    return {
        "suite": group.suite,
        "steps": group.steps,
        "agent": agent,
        "effective_rank": float(known.mean()),
        "effective_rank_std": float(known.std()),
        "effective_rank_centred": float(centred.mean()),
        "features": runs[0].last.features,
        "dead": float(silent[0]),
        "dormant": float(silent[1]),
        "environments": len(known),
        "runs": len(runs),
        "paper_mean": theirs.mean if theirs else math.nan,
        "paper_std": theirs.std if theirs else math.nan,
    }


def probe_table(groups: Iterable[Group]) -> Table:
    """What a linear reader finds in the latents at the end of training, means over seeds."""
    rows, data = [], []
    for group in groups:
        latents = analysed(group)
        for env in group.envs:
            for agent in group.agents:
                runs = [latents[r.name] for r in group.runs_of(agent, env) if r.name in latents]
                for name in sorted({name for found in runs for name in found.last.probes}):
                    found = [run.last.probes[name] for run in runs if name in run.last.probes]
                    values = np.array([[p.latent, p.observation, p.chance] for p in found]).mean(axis=0)
                    shown = [f"{value:.2f}" for value in values]
                    kind = "R2" if found[0].kind == "r2" else found[0].kind
                    rows.append([Cell(word) for word in (env, agent, name, kind, *shown)])
                    place = {"suite": group.suite, "steps": group.steps, "env": env, "agent": agent, "variable": name}
                    scores = dict(zip(("latent", "observation", "chance"), map(float, values), strict=True))
                    data.append({**place, "kind": found[0].kind, **scores, "runs": len(found)})
    header = ["environment", "agent", "variable", "measure", "latent", "observation", "chance"]
    notes = ["Ridge regression on the fixed trajectory; measured on stretches of it that were held out"]
    return Table("probes", "Game state told from the latents", header, rows, data, notes)
