"""Learning curves as pictures: the mean return of the last 100 episodes against environment steps."""

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
INK, FAINT, EDGE = "#222222", "#DDDDDD", "#999999"
SUFFIXES = (".png", ".pdf")
WINDOW = 100  # episodes
POINTS = 1000  # more than this on a line cannot be seen

Series = tuple[str, ArrayLike, ArrayLike]  # label, steps, returns


def learning_curve(series: Sequence[Series], path: str | Path, title: str) -> None:
    """Draws a line for each (label, steps, returns), the returns being means over episodes as metrics.csv has them."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise BadSetting(f"a picture can be written as {', '.join(SUFFIXES)}, got {path.name!r}")
    kind = path.suffix[1:].lower()
    with literal_text():
        drawn = drawn_as(kind, _figure(series, title))
    write_atomically(path, drawn)


def drawn_as(kind: str, figure: Any) -> bytes:
    """The figure as a file: the same lines give the same file on another day."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)
    return drawn.getvalue()


@contextmanager
def literal_text() -> Iterator[None]:
    """Names are drawn as they are: within, a dollar sign begins no formula."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # it is drawn as a box
        yield


def step_label(steps: float, _position: int | None = None) -> str:
    """500, 20k, 2.5M: a number of steps short enough to stand under an axis."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= unit:
            return f"{steps / unit:g}{letter}"
    return f"{steps:g}"


def new_figure(width: float, height: float, dpi: int, layout: Any = None) -> Any:
    """An empty figure, in inches, without matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Any, **ticks: Any) -> None:
    """A faint grid, and no frame but at the left and below."""
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(EDGE)
    axes.tick_params(colors=INK, length=3, width=0.6, **ticks)


def _figure(series: Sequence[Series], title: str) -> Any:
    figure = new_figure(7.2, 4.3, 160, "constrained")
    axes, ends = figure.add_subplot(), list[float]()
    for number, (label, steps, returns) in enumerate(series):
        x, y = _thinned(np.asarray(steps, np.float64), np.asarray(returns, np.float64))
        ends += x[-1:].tolist()
        marker = "o" if len(x) == 1 else None
        axes.plot(x, y, label=label, marker=marker, color=COLOURS[number % len(COLOURS)], linewidth=1.8)
    if not ends:
        axes.text(0.5, 0.5, "no episode has finished yet", ha="center", transform=axes.transAxes, color=INK)
        axes.set(xticks=[], yticks=[])
    _style(axes, title, max([1.0, *ends]))
    if len(series) > 1:
        axes.legend(frameon=False, loc="upper left", labelcolor=INK, handlelength=1.4)
    return figure


def _thinned(steps: np.ndarray, returns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most about POINTS of a line's points, the first finished episode's and the last among them."""
    (known,) = np.nonzero(np.isfinite(returns))
    kept = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), POINTS)).round().astype(int))]
    return steps[kept], returns[kept]


def _style(axes: Any, title: str, last_step: float) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=10)
    axes.set_xlabel("environment steps", color=INK)
    axes.set_ylabel(f"return (mean of the last {WINDOW} episodes)", color=INK)
    axes.xaxis.set_major_formatter(step_label)
    axes.set_xlim(0, 1.01 * last_step)
    plain(axes)
