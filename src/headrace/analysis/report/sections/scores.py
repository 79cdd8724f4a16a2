"""Scores beside the paper's, what they say of its claims and of ablations, and what the runs cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.analysis.ablations import ablation_table, present
from headrace.analysis.artefacts import pairs_table
from headrace.analysis.claims import FAILS, HOLDS, UNKNOWN, Judgement, claims_table, has_claims, judge
from headrace.analysis.cost import cost_table
from headrace.analysis.paper import UNITS, Unit, even_unit, paper_unit
from headrace.analysis.report import charts
from headrace.analysis.report.charts import dots, lines, row, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.report.parts import Body, Section, links, of_each_group, panel, panels, same_each_time, together
from headrace.analysis.report.sections.curves import latents_stamp
from headrace.analysis.report.tables import matrix_body, own, table_body, table_files
from headrace.analysis.score_tables import METRIC_TITLES, formula_table, interval_table, metrics_in, scores_table
from headrace.analysis.scores import Group
from headrace.analysis.stats import profile
from headrace.analysis.table import Table
from headrace.errors import counted

SCORES_ABOUT = (
    "The score of a run is the mean of its last 50 log points. Below ours stand the paper's number and the difference: "
    "▲ above and ▼ below by more than twice its standard error, ≈ within it."
)
THRESHOLDS = 120  # of a performance profile
AGGREGATES_ABOUT = (
    "Over all runs and environments, in the {unit}. Bars are 95% stratified-bootstrap intervals, which take three "
    "seeds. A performance profile shows which share of the runs is above each score, averaged over environments."
)
KINDS = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "open"}
SIGNS = {HOLDS: "✓", FAILS: "✗", UNKNOWN: "?"}
ABLATIONS_ABOUT = (
    "One setting varied at a time. The charts show the mean over environments and seeds on one scale with its 95% "
    "bootstrap interval; agents that are switched off above are not in them."
)


def results(context: Context) -> list[Section]:
    return of_each_group(context, "scores", "Scores", _scores, standing)


def standing(group: Group) -> tuple[object, ...]:
    """The finished runs, and which others there are: what tables of scores and their notes are made of."""
    finished = tuple(record for record in group.records if record.state == "finished")
    return finished, tuple((r.agent, r.env, r.seed, r.state) for r in group.records)


def _scores(context: Context, group: Group) -> Body:
    units = {unit.name: unit for unit in (paper_unit(group.suite), UNITS["score"])}
    tables = [matrix_body(context, scores_table(group, unit)) for unit in units.values()]
    about = SCORES_ABOUT if group.paper().scores else "The score of a run is the mean of its last 50 log points."
    missing = "" if group.paper().scores else " The paper has no numbers for this suite at this budget."
    return together(Body(tag("p", about, missing, class_="soft")), *tables)


def aggregates(context: Context) -> list[Section]:
    return of_each_group(context, "aggregates", "Aggregates", _aggregates, standing, lambda group: group.has_many)


def _aggregates(context: Context, group: Group) -> Body:
    unit = even_unit(group.suite)
    table = interval_table([group], same_each_time())
    shown = [_dots(context, group, metric, unit, table.data) for metric in metrics_in(unit)]
    about = Body(tag("p", AGGREGATES_ABOUT.format(unit=unit.label), class_="soft"))
    return together(
        about,
        panels(*shown, _profile(context, group, unit)),
        table_body(context, own(table, group)),
        table_body(context, own(formula_table([group]), group)),
        *(table_body(context, pairs) for pairs in [pairs_table(group, same_each_time())] if pairs.rows),
    )


def _dots(context: Context, group: Group, metric: str, unit: Unit, data: Sequence[Mapping[str, Any]]) -> Body:
    found = [one for one in data if one["metric"] == metric and np.isfinite(one["value"])]
    rows = [row(context.number(d["agent"]), d["agent"], d["value"], d["low"], d["high"]) for d in found]
    title = METRIC_TITLES[metric][0].upper() + METRIC_TITLES[metric][1:]
    return panel(f"{metric}-{group.slug}", dots(title, charts.axis(METRIC_TITLES[metric], unit.label), rows))


def _profile(context: Context, group: Group, unit: Unit) -> Body:
    matrices = group.scored(unit)
    top = max((float(np.nanmax(scores)) for scores in matrices.values()), default=1.0)
    bottom = min((0.0, *(float(np.nanmin(scores)) for scores in matrices.values())))
    thresholds = np.linspace(bottom, max(top, bottom + 1e-9), THRESHOLDS)
    drawn = [series(context.number(agent), agent, profile(m, thresholds)) for agent, m in matrices.items()]
    x = charts.axis("score above which a run is", unit.label, min=bottom, max=float(thresholds[-1]))
    y = charts.axis("share of runs", "0 to 1", min=0, max=1)
    return panel(f"profile-{group.slug}", lines("Performance profile", x, y, drawn, xs=thresholds, stairs=True))


def claims(context: Context) -> list[Section]:
    return of_each_group(
        context, "claims", "Claims", _claims, lambda group: (standing(group), latents_stamp(group)), has_claims
    )


def _claims(context: Context, group: Group) -> Body:
    found = judge(group, same_each_time())
    table = own(claims_table(found), group)
    files = table_files(table)
    told = [one for one in found if one.verdict != UNKNOWN]
    untold = [one for one in found if one.verdict == UNKNOWN]
    words = [tag("p", _counted(found), " ", links(files), class_="soft"), _listed(told), _folded(untold)]
    notes = tag("ul", [tag("li", note) for note in table.notes], class_="note")
    return together(Body(join([*words, notes]), {}, files))


def _counted(found: list[Judgement]) -> str:
    counts = Counter(one.verdict for one in found)
    told = [f"{counts[HOLDS]} hold", f"{counts[FAILS]} do not", f"{counts[UNKNOWN]} cannot be told from these runs"]
    return f"Of {len(found)} claims of the paper {', '.join(told)}."


def _listed(found: list[Judgement]) -> Html:
    return tag("ol", [_claim(one) for one in found], class_="claims")


def _claim(one: Judgement) -> Html:
    verdict = tag("span", f"{SIGNS[one.verdict]} {one.verdict}", class_="verdict")
    said = one.claim[0].upper() + one.claim[1:]
    return tag(
        "li",
        tag("p", tag("b", said), " — ", verdict),
        tag("p", one.sentence, class_="soft"),
        class_=f"claim card {KINDS[one.verdict]}",
    )


def _folded(found: list[Judgement]) -> Html:
    if not found:
        return Html("")
    return tag("details", tag("summary", f"{counted(len(found), 'claim')} that these runs cannot tell"), _listed(found))


def ablations(context: Context) -> list[Section]:
    """One for each group in which a setting was varied."""
    return of_each_group(context, "ablations", "Ablations", _ablations, standing, lambda group: bool(present(group)))


def _ablations(context: Context, group: Group) -> Body:
    table = ablation_table([group], same_each_time())
    about = Body(tag("p", ABLATIONS_ABOUT, class_="soft"))
    return together(about, panels(*_panels(context, group, table)), table_body(context, own(table, group)))


def _panels(context: Context, group: Group, table: Table) -> list[Body]:
    """One panel for each ablation of a group, read off the table so that both show the same numbers."""
    shown = []
    for ablation in present(group):
        rows = [
            row(context.number(d["agent"]), str(d["value"]), d["scaled_value"], d["scaled_low"], d["scaled_high"])
            for d in table.data
            if (d["suite"], d["steps"], d["ablation"], d["metric"]) == (group.suite, group.steps, ablation.name, "mean")
        ]
        unit = charts.axis("mean", even_unit(group.suite).label)
        shown.append(
            panel(f"ablation-{group.slug}-{ablation.name}", dots(f"{ablation.title}, {group.title}", unit, rows))
        )
    return shown


def costs(context: Context) -> Section:
    inputs = tuple(standing(group) for group in context.groups)
    return Section("cost", "Cost", inputs, lambda: table_body(context, cost_table(context.groups)))
