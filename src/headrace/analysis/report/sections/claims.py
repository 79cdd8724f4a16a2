"""Which of the paper's claims hold on these runs, each as a sentence with its numbers."""

from __future__ import annotations

from collections import Counter

from headrace.analysis.claims import Judgement, claims_table, has_claims, judge
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.report.parts import Body, Section, links, of_each_group, same_each_time, together
from headrace.analysis.report.sections.representation import latents_stamp
from headrace.analysis.report.sections.scores import standing
from headrace.analysis.report.tables import own, table_files
from headrace.analysis.scores import Group
from headrace.analysis.verdicts import FAILS, HOLDS, UNKNOWN
from headrace.errors import counted

KINDS = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "open"}
SIGNS = {HOLDS: "✓", FAILS: "✗", UNKNOWN: "?"}


def claims(context: Context) -> list[Section]:
    return of_each_group(
        context, "claims", "Claims", _body, lambda group: (standing(group), latents_stamp(group)), has_claims
    )


def _body(context: Context, group: Group) -> Body:
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
