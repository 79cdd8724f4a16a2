"""Effective ranks of a group's runs, as `headrace latents` left them beside each run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from headrace.analysis.latents import Latents, read_latents
from headrace.analysis.paper import beside, told
from headrace.analysis.records import Record, counted
from headrace.analysis.scores import Group
from headrace.analysis.stats import task_means
from headrace.analysis.table import Cell, Table, spread
from headrace.analysis.trajectory import LENGTH, policy_words

NAMED = 6  # runs that a notice names; more are counted


class Seen(NamedTuple):
    """What tells one fixed trajectory of an environment from another."""

    observations: int
    policy: str

    @staticmethod
    def by(latents: Latents) -> Seen:
        return Seen(latents.observations, latents.policy)

    def __str__(self) -> str:
        return f"{self.observations:,} observations, {self.policy}"


USUAL = Seen(LENGTH, policy_words())


class Analyses(NamedTuple):
    """A group's analyses by the run's name: those on one kind of trajectory, and those on another."""

    group: Group
    seen: Seen
    kept: dict[str, Latents]
    others: dict[str, Latents]

    @property
    def whole(self) -> dict[str, Latents]:
        """Of the finished runs that have an analysis of their last step."""
        found = {r.name: r for r in self.group.records}
        return {name: latents for name, latents in self.kept.items() if _is_whole(found[name], latents)}

    def notices(self) -> list[str]:
        """Which runs were analysed on another trajectory, and so are passed over."""
        if not self.others:
            return []
        shown = [f"{name} ({Seen.by(latents)})" for name, latents in self.others.items()]
        listed = ", ".join(shown[:NAMED]) + (f" and {len(shown) - NAMED} more" if len(shown) > NAMED else "")
        runs = counted(len(shown), "run")
        return [f"{self.group.title}: on {self.seen}; passed over, as analysed on another trajectory: {runs}, {listed}"]


def analyses(group: Group) -> Analyses:
    """Every analysis of the group's runs. Of several kinds of trajectory the usual one is kept, else the commonest."""
    found = {r.name: latents for r in group.records if (latents := read_latents(r.path)) and latents.steps}
    whole = [latents for r in group.records if (latents := found.get(r.name)) and _is_whole(r, latents)]
    counts = Counter(Seen.by(latents) for latents in whole or found.values())
    seen = max(counts, key=lambda seen: (seen == USUAL, counts[seen], seen), default=USUAL)
    kept = {name: latents for name, latents in found.items() if Seen.by(latents) == seen}
    return Analyses(group, seen, kept, {name: latents for name, latents in found.items() if name not in kept})


def _is_whole(record: Record, latents: Latents) -> bool:
    return record.state == "finished" and latents.last.step == record.steps


def rank_matrix(group: Group, agent: str, latents: dict[str, Latents]) -> np.ndarray:
    """Uncentred effective ranks at the end of training, (seeds x environments); NaN where none is known."""
    return _both_ranks(group, agent, latents)[0]


def _both_ranks(group: Group, agent: str, latents: dict[str, Latents]) -> np.ndarray:
    """Uncentred and centred, (2 x seeds x environments)."""
    ranks = np.full((2, len(group.seeds), len(group.envs)), np.nan)
    for record in group.runs_of(agent):
        if record.name in latents:
            last = latents[record.name].last
            place = group.seeds.index(record.seed), group.envs.index(record.env)
            ranks[:, *place] = last.effective_rank, last.effective_rank_centred
    return ranks


def _by_env(ranks: np.ndarray) -> np.ndarray:
    """The mean over seeds in each environment that has one."""
    means = task_means(ranks)
    return means[np.isfinite(means)]


def _spread(means: np.ndarray) -> str:
    """Mean ± std over environments; of one environment there is no spread."""
    return spread(float(means.mean()), _std(means))


def _std(means: np.ndarray) -> float:
    return float(means.std()) if len(means) > 1 else math.nan


def rank_table(groups: Iterable[Group]) -> Table:
    """Mean ± population std over environments of the effective rank, uncentred and centred, beside the paper's.

    The difference from the paper has no mark: its spread is over environments, and says nothing of its mean's error.
    """
    rows, data, notes = [], [], []
    for group in groups:
        found, paper = analyses(group), group.paper()
        latents = found.whole
        notes += found.notices()
        for agent in group.agents:
            runs = [latents[r.name] for r in group.runs_of(agent) if r.name in latents]
            if not runs:
                continue
            known, centred = (_by_env(m) for m in _both_ranks(group, agent, latents))
            theirs = paper.ranks.get(agent)
            silent = np.array([run.last.silence["encoder"] for run in runs]).mean(axis=0)
            cell = beside(_spread(known), theirs, float(known.mean()))
            more = [_spread(centred), str(runs[0].last.features)]
            rows.append([Cell(group.title), Cell(agent), cell, *map(Cell, more), *(Cell(f"{x:.1%}") for x in silent)])
            data.append(_row(group, agent, known, centred, silent, runs, theirs))
            if len(runs) < len(group.runs_of(agent)):
                notes.append(f"{agent}, {group.title}: {len(runs)} of {len(group.runs_of(agent))} runs are counted")
    header = ["suite", "agent", "effective rank", "centred", "features", "dead", "dormant"]
    said = ["At the end of training, on one fixed trajectory an environment; ± is over environments"]
    return Table("effective_rank", "Effective rank of the latents", header, rows, data, said + notes)


def _row(
    group: Group, agent: str, known: np.ndarray, centred: np.ndarray, silent: Any, runs: list[Latents], theirs: Any
) -> dict[str, Any]:
    ranks = {"effective_rank": known, "effective_rank_centred": centred}
    spread_over = {f"{name}{of}": f(x) for name, x in ranks.items() for of, f in (("", np.mean), ("_std", _std))}
    return {
        **group.columns, "agent": agent, **spread_over, "features": runs[0].last.features,
        "dead": float(silent[0]), "dormant": float(silent[1]), "environments": len(known), "runs": len(runs),
        **told(theirs, "paper_"),
    }  # fmt: skip


def probe_table(groups: Iterable[Group]) -> Table:
    """What a linear reader finds in the latents at the end of training, means over seeds."""
    rows, data, passed_over = [], [], []
    for group in groups:
        seen = analyses(group)
        latents = seen.whole
        passed_over += seen.notices()
        for env in group.envs:
            for agent in group.agents:
                runs = [latents[r.name] for r in group.runs_of(agent, env) if r.name in latents]
                for name in sorted({name for found in runs for name in found.last.probes}):
                    found = [run.last.probes[name] for run in runs if name in run.last.probes]
                    values = np.array([[p.latent, p.observation, p.chance] for p in found]).mean(axis=0)
                    shown = [f"{value:.2f}" for value in values]
                    kind = "R2" if found[0].kind == "r2" else found[0].kind
                    rows.append([Cell(word) for word in (env, agent, name, kind, *shown)])
                    place = {**group.columns, "env": env, "agent": agent, "variable": name}
                    scores = dict(zip(("latent", "observation", "chance"), map(float, values), strict=True))
                    data.append({**place, "kind": found[0].kind, **scores, "runs": len(found)})
    header = ["environment", "agent", "variable", "measure", "latent", "observation", "chance"]
    notes = ["Ridge regression on the fixed trajectory; measured on stretches of it that were held out"]
    return Table("probes", "Game state told from the latents", header, rows, data, notes + passed_over)
