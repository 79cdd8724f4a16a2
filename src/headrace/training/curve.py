"""A picture of learning: the mean return of the last 100 episodes against environment steps."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headrace.errors import BadSetting
from headrace.runs.files import write_atomically

# Okabe and Ito's palette, which people with any common colour blindness can tell apart, without its pale yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, FAINT = "#222222", "#DDDDDD"
SUFFIXES = (".png", ".pdf")
WINDOW = 100  # episodes
POINTS = 1000  # more than this on a line cannot be seen

Series = tuple[str, ArrayLike, ArrayLike]  # label, steps, returns
Line = tuple[np.ndarray, np.ndarray]


def learning_curve(series: Sequence[Series], path: str | Path, title: str) -> None:
    """Draws each (label, steps, returns), the returns being means over episodes as a run logs them in metrics.csv.

    Series of one label are runs that differ in their seed: a thin line for each and a bold one for their mean, over the
    steps that all of them have.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise BadSetting(f"a picture can be written as {', '.join(SUFFIXES)}, got {path.name!r}")
    drawn = io.BytesIO()
    with literal_text():
        _figure(_grouped(series), title).savefig(drawn, format=path.suffix[1:].lower(), metadata=_undated(path))
    write_atomically(path, drawn.getvalue())


@contextmanager
def literal_text() -> Iterator[None]:
    """Names are drawn as they are: within, a dollar sign begins no formula."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # it is drawn as a box
        yield


def mean_line(lines: Sequence[Line]) -> Line:
    """The mean of several lines over the steps that all of them cover."""
    start, end = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    steps = np.unique(np.concatenate([line[0] for line in lines]))
    steps = steps[(start <= steps) & (steps <= end)]
    return steps, np.mean([np.interp(steps, *line) for line in lines], axis=0)


def step_label(steps: float, _position: int | None = None) -> str:
    """500, 20k, 2.5M: a number of steps short enough to stand under an axis."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:g}{letter}"
    return f"{steps:g}"


def _grouped(series: Sequence[Series]) -> dict[str, list[Line]]:
    """The lines of each label, without the points before the first finished episode; a label may have no line yet."""
    groups: dict[str, list[Line]] = {}
    for label, steps, returns in series:
        lines = groups.setdefault(label, [])
        x, y = np.asarray(steps, np.float64), np.asarray(returns, np.float64)
        if x.shape != y.shape:
            raise ValueError(f"{label!r} has {x.size} steps and {y.size} returns")
        known = np.isfinite(y)
        if known.any():
            lines.append((x[known], y[known]))
    return groups


def _figure(groups: dict[str, list[Line]], title: str) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.3), dpi=160, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, (label, lines) in enumerate(groups.items()):
        _draw(axes, lines, label, COLOURS[number % len(COLOURS)], ("-", "--", ":")[number // len(COLOURS) % 3])
    if not any(groups.values()):
        axes.text(0.5, 0.5, "no episode has finished yet", ha="center", transform=axes.transAxes, color=INK)
        axes.set(xticks=[], yticks=[])
    _style(axes, title, max((line[0][-1] for lines in groups.values() for line in lines), default=1.0))
    if len(groups) > 1:
        axes.legend(frameon=False, loc="upper left", labelcolor=INK, handlelength=1.4)
    return figure


def _draw(axes: Any, lines: Sequence[Line], label: str, colour: str, dashes: str) -> None:
    bold = {"color": colour, "linestyle": dashes, "linewidth": 1.8, "solid_capstyle": "round"}
    if len(lines) > 1:
        for line in lines:
            axes.plot(*_thinned(line), color=colour, linestyle=dashes, linewidth=0.7, alpha=0.45)
        label = f"{label} (mean of {len(lines)} runs)"
    steps, returns = _thinned(mean_line(lines)) if lines else (np.empty(0), np.empty(0))
    marker = "o" if len(steps) == 1 else None
    axes.plot(steps, returns, label=label, marker=marker, zorder=3, **bold)


def _thinned(line: Line) -> Line:
    """At most about POINTS of a line's points, its first and last among them."""
    count = len(line[0])
    kept = np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))
    return line[0][kept], line[1][kept]


def _style(axes: Any, title: str, last_step: float) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=10)
    axes.set_xlabel("environment steps", color=INK)
    axes.set_ylabel(f"return (mean of the last {WINDOW} episodes)", color=INK)
    axes.xaxis.set_major_formatter(step_label)
    axes.set_xlim(0, 1.01 * max(last_step, 1.0))
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(colors=INK, length=3, width=0.6)


def _undated(path: Path) -> dict[str, None]:
    """The same lines give the same file on another day."""
    return {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}
