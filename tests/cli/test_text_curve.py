"""A curve in letters shows the numbers that it was given."""

from __future__ import annotations

import numpy as np

from headrace.agents import agent_named, to_json
from headrace.cli.show import CURVE_WIDTH, HEIGHT, WIDTH, _settings, text_curve


def test_a_straight_line_rises_from_corner_to_corner():
    steps = np.arange(1, 113) * 1000
    rows = text_curve(steps, np.linspace(0.0, 1.0, 112))
    assert len(rows) == HEIGHT + 1
    pictures = [row.partition("│")[2].ljust(CURVE_WIDTH) for row in rows[:-1]]
    heights = [sum(picture[column] != " " for picture in pictures) for column in range(CURVE_WIDTH)]
    assert heights[0] == 1
    assert heights[-1] == HEIGHT
    assert heights == sorted(heights)
    assert rows[0].startswith(" 0.995 │")
    assert rows[-1].split() == ["1k", "112k", "steps"]


def test_what_is_not_known_is_left_out():
    assert text_curve(np.arange(3), np.full(3, np.nan)) == []
    assert text_curve(np.array([]), np.array([])) == []
    rows = text_curve(np.array([1000, 2000, 3000]), np.array([np.nan, 1.0, 1.0]), plain=True)
    assert "".join(rows).isascii()
    assert rows[-1].split() == ["2k", "3k", "steps"]


def test_settings_are_wrapped_at_their_own_width_not_at_the_curve_s():
    first, *lines = _settings({"agent": to_json(agent_named("qrc+spr+orth"))}).split("\n")
    widths = [len(first), *(len(line.strip()) for line in lines)]
    assert CURVE_WIDTH < max(widths) <= WIDTH
