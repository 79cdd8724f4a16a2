"""The paper's tables of scores on these runs, each number beside the paper's."""

from __future__ import annotations

from functools import partial

from headrace.analysis.paper import UNITS, paper_unit
from headrace.analysis.records import Record
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import tag
from headrace.analysis.report.parts import Body, Section, together
from headrace.analysis.report.tables import matrix_body
from headrace.analysis.score_tables import scores_table
from headrace.analysis.scores import Group

ABOUT = (
    "The score of a run is the mean of its last 50 log points. Below ours stand the paper's number and the difference: "
    "▲ above and ▼ below by more than twice its standard error, ≈ within it."
)


def finished(group: Group) -> tuple[Record, ...]:
    """What scores depend on: runs that go on change nothing here."""
    return tuple(record for record in group.records if record.state == "finished")


def results(context: Context) -> list[Section]:
    return [
        Section(f"scores-{group.slug}", "Scores", standing(group), partial(_body, context, group), context.tab(group))
        for group in context.groups
    ]


def standing(group: Group) -> tuple[object, ...]:
    """The finished runs, and which others there are: what tables of scores and their notes are made of."""
    return finished(group), tuple((r.agent, r.env, r.seed, r.state) for r in group.records)


def _body(context: Context, group: Group) -> Body:
    units = {unit.name: unit for unit in (paper_unit(group.suite), UNITS["score"])}
    tables = [matrix_body(context, scores_table(group, unit)) for unit in units.values()]
    about = ABOUT if group.paper().scores else "The score of a run is the mean of its last 50 log points."
    missing = "" if group.paper().scores else " The paper has no numbers for this suite at this budget."
    return together(Body(tag("p", about, missing, class_="soft")), *tables)
