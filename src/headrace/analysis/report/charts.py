"""Charts as plain values for the page's script: what is drawn is decided here, how it looks in plot.js.

Three kinds. `lines` have a series of points, with an interval where there is one, for each agent. `dots` have one value
with its interval for each agent. `points` lie in a plane, coloured by time. An axis always has a label, and a unit
unless the quantity has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

DIGITS = 4  # significant ones: more cannot be seen on a screen
STEP_DIGITS = 9
Chart = dict[str, Any]
_UNKNOWN = re.compile("-?(?:nan|inf)")


def axis(label: str, unit: str = "", **more: Any) -> dict[str, Any]:
    return {"label": label, "unit": unit, **more}


STEPS = axis("environment steps", "", format="steps", min=0)


def numbers(values: Iterable[float], digits: int = DIGITS) -> list[float | None]:
    """Rounded for JSON; what is not finite is None.

    A page of 2,000 runs has millions of these, and text is the fastest way to round them.
    """
    known = tuple(values)
    text = ",".join([f"%.{digits}g"] * len(known)) % known
    return json.loads(f"[{_UNKNOWN.sub('null', text)}]")


def number(value: float | None) -> float | None:
    return None if value is None else numbers([value])[0]


def series(agent: int | None, label: str, y: Iterable[float], low: Any = None, high: Any = None) -> Chart:
    """One line. `agent` is its number in the page's list, which gives its colour; None is the page's own colour."""
    made: Chart = {"agent": agent, "label": label, "y": numbers(y)}
    if low is not None and high is not None and np.isfinite(np.asarray(low, float)).any():
        made |= {"low": numbers(low), "high": numbers(high)}
    return made


def lines(
    title: str,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    found: Sequence[Chart],
    xs: Iterable[float] | str,
    **more: Any,
) -> Chart:
    """Lines over the same `xs`, or over the grid of this name (see `Body.grids`)."""
    grid = xs if isinstance(xs, str) else numbers(xs, STEP_DIGITS)
    return {"kind": "lines", "title": title, "x": dict(x), "y": dict(y), "series": list(found), "xs": grid, **more}


def row(agent: int, label: str, value: float, low: float, high: float) -> Chart:
    return {"agent": agent, "label": label, "value": number(value), "low": number(low), "high": number(high)}


def dots(title: str, x: Mapping[str, Any], rows: Sequence[Chart]) -> Chart:
    return {"kind": "dots", "title": title, "x": dict(x), "y": axis("agent"), "rows": list(rows)}


def points(title: str, plane: np.ndarray) -> Chart:
    """Points (n x 2) in the order of time; the plane's axes have no unit, as those of t-SNE have none."""
    x, y = (numbers(plane[:, i], 3) for i in (0, 1))
    axes = {"x": axis("t-SNE 1", "no unit"), "y": axis("t-SNE 2", "no unit")}
    return {"kind": "points", "title": title, **axes, "px": x, "py": y}
