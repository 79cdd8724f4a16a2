"""All tables and figures of a report, in its order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.analysis import figures
from headrace.analysis.ablations import ablation_table, effect, present
from headrace.analysis.claims import COSINE, Judgement, claims_table, has_claims, judge
from headrace.analysis.cost import cost_table
from headrace.analysis.curves import SHORT_RUNS, env_curves, suite_curves
from headrace.analysis.latents import Latents, read_points
from headrace.analysis.paper import UNITS, even_unit, paper_unit
from headrace.analysis.ranks import analyses, probe_table, rank_matrix, rank_table
from headrace.analysis.records import Record
from headrace.analysis.score_tables import (
    comparison_table,
    coverage_table,
    formula_table,
    interval_table,
    metrics_in,
    scores_table,
)
from headrace.analysis.scores import Group
from headrace.analysis.stats import interval, pairwise
from headrace.analysis.style import Looks, looks_of
from headrace.analysis.table import Table

PAIRS = (
    ("qrc+spr", "qrc"), ("qrc+spr+orth", "qrc"), ("qrc+spr+orth", "qrc+spr"), ("dqn+spr", "dqn"),
    ("strq+spr", "strq"), ("strq+spr+orth", "strq"), ("strq+spr+orth2", "strq"), ("qrc+spr+orth", "strq+spr+orth2"),
    ("qrc", "strq"), ("qrc", "dqn"),
)  # fmt: skip
TSNE_AGENTS = ("qrc+spr+orth", "qrc", "strq+spr+orth2", "strq", "dqn+spr", "dqn")


class Drawn(NamedTuple):
    name: str  # of its files
    caption: str
    figure: Any  # matplotlib's


def judgements(groups: Sequence[Group], rng: np.random.Generator) -> list[Judgement]:
    """The paper's claims on every group of a suite that the paper has."""
    return [found for group in groups if has_claims(group) for found in judge(group, rng)]


def tables(groups: Sequence[Group], rng: np.random.Generator) -> Iterator[Table]:
    """Every table that has rows."""
    made = [coverage_table(group) for group in groups]
    for group in groups:
        units = dict.fromkeys((paper_unit(group.suite), UNITS["score"]))
        made += [scores_table(group, unit) for unit in units]
    many = [group for group in groups if group.has_many]
    made += [formula_table(many), interval_table(many, rng)]
    made += [pairs_table(group, rng) for group in groups]
    made += [claims_table(judgements(groups, rng)), rank_table(groups), probe_table(groups)]
    made += [ablation_table(groups, rng), cost_table(groups)]
    yield from (table for table in made if table.rows)


def pairs_table(group: Group, rng: np.random.Generator) -> Table:
    """The pairs of agents that the paper speaks of, those of which the group has scores."""
    known = group.scored(even_unit(group.suite))
    return comparison_table(group, pairwise(known, [pair for pair in PAIRS if set(pair) <= known.keys()], rng))


def looks_in(groups: Sequence[Group]) -> Looks:
    """A look for each agent of a report's groups."""
    return looks_of(agent for group in groups for agent in group.agents)


def drawings(groups: Sequence[Group], rng: np.random.Generator, looks: Looks | None = None) -> Iterator[Drawn]:
    """Every figure that has runs, one at a time; `looks` are those of a larger report of which the groups are part."""
    looks = looks or looks_in(groups)
    for group in groups:
        yield from _curves(group, looks, rng)
        yield from _scores(group, looks, rng)
        yield from _representation(group, looks)


def _curves(group: Group, looks: Looks, rng: np.random.Generator) -> Iterator[Drawn]:
    curves = env_curves(group, "return", rng)
    caption = "Mean over seeds of the mean return of the last 100 episodes, with 95% bootstrap intervals."
    short = f" {SHORT_RUNS}" if any(c.short for by_agent in curves.values() for c in by_agent.values()) else ""
    yield Drawn(f"curves_{group.slug}", caption + short, figures.learning_curves(group, curves, looks))
    unit = even_unit(group.suite)
    if len(group.envs) > 1 and (whole := suite_curves(group, "return", rng, unit)):
        words = "Mean over environments and seeds"
        yield Drawn(f"suite_{group.slug}", f"{words}.", figures.suite_curve(group, whole, looks, words, unit.label))
    if cosines := suite_curves(group, COSINE, rng):
        words = "Cosine between the RL and the auxiliary update on the encoder"
        drawn = figures.suite_curve(group, cosines, looks, words, "cosine, before orth", zero=True)
        yield Drawn(f"cosine_{group.slug}", f"{words}, before orth and orth2.", drawn)


def _scores(group: Group, looks: Looks, rng: np.random.Generator) -> Iterator[Drawn]:
    known = group.scored(even_unit(group.suite))
    if not known:
        return
    if group.has_many:
        yield from _aggregates(group, known, looks, rng)
    if ablations := present(group):
        agents = {agent for ablation in ablations for _, agent in ablation.agents}
        effects = {agent: effect(group, agent, rng) for agent in agents}
        drawn = figures.ablation_bars(group, ablations, effects, looks)
        yield Drawn(f"ablations_{group.slug}", "Ablations: means over tasks with 95% intervals.", drawn)


def _aggregates(group: Group, known: dict[str, np.ndarray], looks: Looks, rng: np.random.Generator) -> Iterator[Drawn]:
    metrics = metrics_in(even_unit(group.suite))
    found = {agent: {m: interval(x, f, rng) for m, f in metrics.items()} for agent, x in known.items()}
    caption = "Aggregates over runs and tasks with stratified-bootstrap 95% intervals."
    yield Drawn(f"aggregates_{group.slug}", caption, figures.aggregate_metrics(group, found, looks))
    caption = "The share of runs that score above x, averaged over tasks."
    yield Drawn(f"profiles_{group.slug}", caption, figures.performance_profiles(group, looks, rng))


def _representation(group: Group, looks: Looks) -> Iterator[Drawn]:
    found = analyses(group)
    latents, passed_over = found.whole, "".join(f" {notice}." for notice in found.notices())
    if latents:
        ranks = {agent: rank_matrix(group, agent, latents) for agent in group.agents}
        caption = f"Effective rank of the latents at the end of training.{passed_over}"
        yield Drawn(f"rank_{group.slug}", caption, figures.rank_bars(group, ranks, looks))
    for env in group.envs:
        runs = [run for agent in group.agents if (run := shown_run(group, agent, env, found.kept))]
        if not runs:
            continue
        name = env.replace("/", "-")
        several = [(r.agent, found.kept[r.name]) for r in runs if len(found.kept[r.name].steps) > 1]
        if several:
            drawn = figures.latents_over_training(several, looks, f"Latents over training, {env}, {group.title}")
            yield Drawn(f"latents_{group.slug}_{name}", "Latents of one seed at its checkpoints.", drawn)
        yield from _tsne(group, env, [r for r in runs if r.agent in TSNE_AGENTS] or runs[:4])


def shown_run(group: Group, agent: str, env: str, analysed: Mapping[str, Latents]) -> Record | None:
    """The agent's first seed whose analysis goes furthest; None where no seed has been analysed."""
    runs = [run for run in group.runs_of(agent, env) if run.name in analysed]
    return max(runs, key=lambda run: (analysed[run.name].last.step, -run.seed), default=None)


def _tsne(group: Group, env: str, runs: Sequence[Any]) -> Iterator[Drawn]:
    order = {agent: place for place, agent in enumerate(TSNE_AGENTS)}
    found = {r.agent: read_points(r.path) for r in sorted(runs, key=lambda r: order.get(r.agent, len(order)))}
    for perplexity in sorted({p for points in found.values() for _, p in points}):
        rows = [(agent, {s: xy for (s, p), xy in points.items() if p == perplexity}) for agent, points in found.items()]
        rows = [(agent, points) for agent, points in rows if points]
        name = f"tsne_{group.slug}_{env.replace('/', '-')}_{perplexity:g}"
        caption = f"t-SNE of the latents on {env}, coloured by time."
        yield Drawn(name, caption, figures.tsne_panels(rows, perplexity, f"{env}, {group.title}", group.steps))
