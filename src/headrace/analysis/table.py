"""A table for readers (Markdown, LaTeX) and for programs (CSV): the same numbers, in two arrangements."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.runs.files import storage_errors, write_atomically

NOTHING = "\N{EN DASH}"  # where there is no number
MARKS = {"above": "▲", "below": "▼", "same": "≈", "": ""}
_LATEX_MARKS = {"above": r"$\blacktriangle$", "below": r"$\blacktriangledown$", "same": r"$\approx$", "": ""}
_LATEX = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    NOTHING: "--",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "β": r"$\beta$",
}


@dataclass(frozen=True)
class Cell:
    """One or two lines: our number, and the paper's with how ours differs from it.

    `mark` is `above` or `below` where the difference is larger than chance would make it, `same` where it is not, and
    empty where there is nothing to compare.
    """

    text: str
    paper: str = ""
    difference: str = ""
    mark: str = ""

    @property
    def second(self) -> str:
        """The second line without its mark."""
        return f"paper {self.paper}{', ' if self.difference else ''}{self.difference}" if self.paper else ""


@dataclass(frozen=True)
class Table:
    """`rows` is what a reader sees; `data` is the same in long form, one value a row, with full precision."""

    name: str  # of its files
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    data: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = field(default=())

    def csv(self) -> str:
        out = io.StringIO()
        names = list(dict.fromkeys(name for row in self.data for name in row))
        writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows({name: _plain(value) for name, value in row.items()} for row in self.data)
        return out.getvalue()

    def markdown(self) -> str:
        header = [_markdown_row([_markdown(name) for name in self.header]), _markdown_row(["---"] * len(self.header))]
        lines = [f"**{_markdown(self.title)}**", "", *header]
        lines += [_markdown_row([_markdown_cell(cell) for cell in row]) for row in self.rows]
        return "\n".join([*lines, "", *(f"- {_markdown(note)}" for note in self.notes), ""])

    def latex(self) -> str:
        """A `tabular` inside a `table`; needs the package amssymb for the marks."""
        body = [" & ".join(map(latex_text, self.header)) + r" \\", r"\hline"]
        body += [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in self.rows]
        caption = " ".join([latex_text(self.title) + ".", *(latex_text(note) + "." for note in self.notes)])
        tabular = [
            rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
        ]
        start = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", rf"\label{{tab:{self.name}}}"]
        return "\n".join([*start, *tabular, r"\end{table}", ""])

    def write(self, folder: Path) -> list[Path]:
        """The table as NAME.csv, NAME.md and NAME.tex."""
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        written = {"csv": self.csv(), "md": self.markdown(), "tex": self.latex()}
        for suffix, text in written.items():
            write_atomically(folder / f"{self.name}.{suffix}", text.encode())
        return [folder / f"{self.name}.{suffix}" for suffix in written]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return ""
    return repr(float(value)) if isinstance(value, float) else value


def _markdown(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(escaped.replace("*", "\\*").replace("_", "\\_").split())


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: Cell) -> str:
    lines = [_markdown(cell.text), f"{_markdown(cell.second)} {MARKS[cell.mark]}".strip()]
    return "<br>".join(line for line in lines if line)


def latex_text(text: str) -> str:
    """The text with every character that LaTeX would read as a command written out."""
    return "".join(_LATEX.get(c, c) for c in text)


def _latex_cell(cell: Cell) -> str:
    second = f"{latex_text(cell.second)} {_LATEX_MARKS[cell.mark]}".strip()
    return rf"\shortstack[r]{{{latex_text(cell.text)}\\{second}}}" if second else latex_text(cell.text)


def number(value: float) -> str:
    """Short enough for a table: 0.12, 37.21, 1,257."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value:z,.{_digits(value)}f}"


def _digits(value: float) -> int:
    return 2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0


def spread(mean: float, std: float) -> str:
    return f"{number(mean)} ± {std:,.{_digits(mean)}f}" if math.isfinite(std) else number(mean)


def signed(value: float) -> str:
    return ("+" if value > 0 and float(f"{value:.2f}") else "") + number(value)


def between(value: float, low: float, high: float) -> str:
    """A number with its interval, all three to as many digits; small ones to one more."""
    if not math.isfinite(low):
        return number(value)
    largest = max(abs(value), abs(low), abs(high))
    digits = 3 if largest < 1 else _digits(largest)
    return f"{value:z,.{digits}f} [{low:z,.{digits}f}, {high:z,.{digits}f}]"
