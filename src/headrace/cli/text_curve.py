"""A learning curve in letters, for a terminal."""

from __future__ import annotations

import numpy as np

from headrace.training.progress import short_steps

WIDTH, HEIGHT = 56, 5  # letters
BLOCKS, PLAIN = " ▁▂▃▄▅▆▇█", " .:#"


def text_curve(steps: np.ndarray, values: np.ndarray, *, plain: bool = False) -> list[str]:
    """Columns from the lowest value to the highest, each the mean over its share of the steps; nothing without a value.

    `plain` draws with letters that every terminal has.
    """
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if len(values) < 2:
        return []
    columns = np.array([part.mean() for part in np.array_split(values, min(WIDTH, len(values)))])
    columns = np.repeat(columns, WIDTH // len(columns))
    low, high = float(columns.min()), float(columns.max())
    share = (columns - low) / (high - low) if high > low else np.full(len(columns), 0.5)
    marks = PLAIN if plain else BLOCKS
    levels = np.rint(share * (HEIGHT * (len(marks) - 1) - 1)).astype(int) + 1  # the lowest is still seen
    ends = [f"{high:.3g}", *[""] * (HEIGHT - 2), f"{low:.3g}"]
    margin = max(map(len, ends))
    rows = [f"{end:>{margin}} {'|' if plain else '│'}{_row(levels, marks, row)}" for row, end in enumerate(ends)]
    first, last = (short_steps(int(step)) for step in (steps[0], steps[-1]))
    return [*rows, f"{'':{margin}}  {first}{last:>{max(len(columns) - len(first), len(last) + 1)}} steps"]


def _row(levels: np.ndarray, marks: str, row: int) -> str:
    """A row of the picture, the top one being row 0."""
    full = len(marks) - 1
    return "".join(marks[level] for level in np.clip(levels - (HEIGHT - 1 - row) * full, 0, full)).rstrip()
