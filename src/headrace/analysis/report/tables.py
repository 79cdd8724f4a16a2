"""Tables as HTML, with links to the same table as CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, join, tag
from headrace.analysis.report.parts import Body, Make, links
from headrace.analysis.scores import Group
from headrace.analysis.table import MARKS, Cell, Table

WORDY = ("suite", "agent", "environment", "ablation", "value", "variable", "measure", "claim", "verdict", "evidence")
WORDS = {"above": "above the paper's", "below": "below the paper's", "same": "as in the paper, within chance"}


def table_body(context: Context, table: Table) -> Body:
    """The table in its frame, which scrolls where the window is too narrow for it."""
    return _shown(context, table, table_files(table))


def matrix_body(context: Context, table: Table) -> Body:
    """A table of agents against tasks in the arrangement that needs less width; its files keep theirs."""
    return _shown(context, turned(table) if len(table.header) - 1 > len(table.rows) else table, table_files(table))


def _shown(context: Context, table: Table, files: Mapping[str, Make]) -> Body:
    words = ["words" if i == 0 or name in WORDY else None for i, name in enumerate(table.header)]
    heads = [tag("th", _known(context, n), scope="col", class_=w) for n, w in zip(table.header, words, strict=True)]
    rows = [[_cell(context, cell, words[i], first=i == 0) for i, cell in enumerate(row)] for row in table.rows]
    notes = tag("ul", [tag("li", note) for note in table.notes], class_="note") if table.notes else Html("")
    return Body(join([framed(table.title, heads, rows, files), notes]), {}, files)


def framed(title: str, heads: Sequence[Html], rows: Sequence[Sequence[Html]], files: Mapping[str, Make]) -> Html:
    """A table under its title; where the window is too narrow the table scrolls and the title stays."""
    inner = tag(
        "table", tag("thead", tag("tr", heads)), tag("tbody", [tag("tr", row) for row in rows]), aria_label=title
    )
    scrolls = tag("div", inner, class_="scroll", tabindex=0, role="region", aria_label=title)
    return tag("div", tag("div", title, links(files), class_="head"), scrolls, class_="card framed")


def turned(table: Table) -> Table:
    """The same table with a row for each column: for the page, where height is cheaper than width."""
    heads = ["agent", *(row[0].text for row in table.rows)]
    rows = [[Cell(name), *(row[i] for row in table.rows)] for i, name in enumerate(table.header[1:], start=1)]
    return replace(table, header=heads, rows=rows)


def own(table: Table, group: Group) -> Table:
    """The table under a name that no other group's has."""
    return replace(table, name=f"{table.name}_{group.slug}")


def encoded(make: Callable[[], str]) -> Make:
    return lambda: make().encode(errors="replace")


def table_files(table: Table) -> dict[str, Make]:
    kinds = {"csv": table.csv, "md": table.markdown, "tex": table.latex}
    return {f"tables/{table.name}.{kind}": encoded(make) for kind, make in kinds.items()}


def _known(context: Context, text: str) -> Any:
    return context.named(text) if text in context.agents else text


def _cell(context: Context, cell: Cell, words: str | None, first: bool) -> Html:
    if first:
        return tag("th", _known(context, cell.text), scope="row")
    second = [tag("small", "paper ", cell.paper)] if cell.paper else []
    if cell.difference:
        sign = MARKS[cell.mark]
        second.append(
            tag("small", f"{cell.difference} {sign}".strip(), class_=f"diff {cell.mark}", title=WORDS.get(cell.mark))
        )
    return tag("td", _known(context, cell.text), second, class_=words)
