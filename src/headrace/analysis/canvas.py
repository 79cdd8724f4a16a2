"""Figures as files: every one as PNG and PDF, in one style, the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.analysis.style import Look, Looks
from headrace.errors import require_package
from headrace.runs.files import storage_errors, write_atomically
from headrace.training import curve
from headrace.training.curve import INK, step_label

FORMATS = ("png", "pdf")
DPI = 130
NAME_LENGTH, CUT = 28, "..."  # characters; what stands for those that were cut
LETTER = 0.58  # a letter's mean width, of the size of the type

# Inches: beside each panel, right of the last, above the first row, between rows, below the last; a legend's entries.
LEFT, RIGHT, TOP, BELOW, BOTTOM = 0.8, 0.25, 0.72, 0.82, 0.58
LEGEND_ROW, LEGEND_COLUMN, NARROWEST = 0.22, 1.95, 5.2


def require_matplotlib() -> None:
    """Fails early where no figure can be drawn, before the work whose end it would be."""
    require_package("matplotlib", "plots", "figures need the matplotlib")


def new_figure(width: float, height: float) -> Any:
    """An empty figure, in inches."""
    require_matplotlib()
    return curve.new_figure(width, height, DPI)


def panels(
    count: int, columns: int, width: float, height: float, labels: int = 0, left: float = LEFT
) -> tuple[Any, list[Any]]:
    """A figure of `count` panels of that size each, with a title above and a legend of `labels` agents below.

    `left` is the room beside each panel for what its vertical axis says.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    whole_width = max(columns * (left + width) + RIGHT, NARROWEST)
    legend_rows = -(-labels // _legend_columns(whole_width)) if labels else 0
    whole_height = TOP + rows * (height + BELOW) - BELOW + BOTTOM + LEGEND_ROW * legend_rows
    figure = new_figure(whole_width, whole_height)
    axes = []
    for number in range(count):
        row, column = divmod(number, columns)
        begin, bottom = left + column * (left + width), whole_height - TOP - row * (height + BELOW) - height
        place = (begin / whole_width, bottom / whole_height, width / whole_width, height / whole_height)
        axes.append(figure.add_axes(place))
    return figure, axes


def _legend_columns(width: float) -> int:
    return max(1, int((width - 0.3) / LEGEND_COLUMN))


def title(figure: Any, words: str) -> None:
    """Above all panels, smaller where a narrow figure would cut it off."""
    room = 72 * (figure.get_figwidth() - 0.2) / (LETTER * max(1, len(words)))
    size = min(12.0, room)
    figure.text(0.012, 1 - 0.12 / figure.get_figheight(), words, ha="left", va="top", fontsize=size, color=INK)


def style(axes: Any, heading: str = "", x: str = "", y: str = "") -> None:
    axes.set_title(heading, loc="left", fontsize=9.5, color=INK, pad=5)
    axes.set_xlabel(x, fontsize=8.5, color=INK)
    axes.set_ylabel(y, fontsize=8.5, color=INK)
    curve.plain(axes, labelsize=8)


def steps_axis(axes: Any, steps: int) -> None:
    axes.set_xlim(0, steps)
    axes.xaxis.set_major_formatter(step_label)
    axes.locator_params(axis="x", nbins=5)


def line(axes: Any, look: Look, x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """A curve with its band, as its agent looks everywhere."""
    known = np.isfinite(y)
    if not known.any():
        return
    dashes = {"dashes": look.dashes} if look.dashes else {}
    axes.plot(x[known], y[known], color=look.colour, linewidth=1.5, zorder=3, **dashes)
    banded = known & np.isfinite(low)
    axes.fill_between(x[banded], low[banded], high[banded], color=look.colour, alpha=0.16, linewidth=0)


def shortened(names: Sequence[str]) -> list[str]:
    """Names as a figure has room for them; the tables have them whole.

    Long ones lose their middle, cut where it leaves no two alike; where every cut would leave some, all stay whole.
    """
    for end in range(NAME_LENGTH // 2, NAME_LENGTH - len(CUT)):
        cut = [_without_middle(name, end) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return list(names)


def _without_middle(name: str, end: int) -> str:
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - end - len(CUT)] + CUT + name[-end:]


def _line_handle(look: Look, label: str) -> Any:
    from matplotlib.lines import Line2D

    handle = Line2D([], [], color=look.colour, linewidth=2, label=label)
    if look.dashes:
        handle.set_dashes(look.dashes)
    return handle


def legend(figure: Any, agents: Sequence[str], looks: Looks) -> None:
    """Every agent once, below all panels."""
    if agents:
        named = zip(agents, shortened(agents), strict=True)
        handles = [_line_handle(looks[agent], label) for agent, label in named]
        figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0.01, 0.0), frameon=False,
            ncols=min(len(agents), _legend_columns(figure.get_figwidth())), fontsize=8.5, labelcolor=INK,
            handlelength=3.2, columnspacing=1.4, borderaxespad=0.2,
        )  # fmt: skip


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """NAME.png and NAME.pdf, without a date in them."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in FORMATS:
        write_atomically(folder / f"{name}.{kind}", curve.drawn_as(kind, figure))
        written.append(folder / f"{name}.{kind}")
    return written
