"""A learning curve shows the numbers it was given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headrace.errors import BadSetting
from headrace.training import curve
from headrace.training.curve import learning_curve, step_label

STEPS = np.arange(1000, 11_000, 1000)


def axes_of(series: list) -> Any:
    return curve._figure(series, "a title").axes[0]


@pytest.mark.parametrize(
    ("steps", "label"), [(0, "0"), (500, "500"), (20_000, "20k"), (2_500_000, "2.5M"), (1e7, "10M"), (3e9, "3G")]
)
def test_steps_are_written_short(steps, label):
    assert step_label(steps) == label


def test_one_run_is_one_line_with_its_own_numbers_and_no_legend():
    returns = np.array([np.nan, np.nan, *range(8)], float)
    axes = axes_of([("qrc", STEPS, returns)])
    (line,) = axes.lines
    assert line.get_xydata().tolist() == [[x, y] for x, y in zip(STEPS[2:], range(8), strict=True)]
    assert axes.get_legend() is None
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment steps", "return (mean of the last 100 episodes)")
    assert axes.get_title(loc="left") == "a title"


def test_two_agents_are_two_lines_and_a_legend():
    axes = axes_of([("qrc", STEPS, STEPS * 1.0), ("dqn", STEPS, STEPS * 0.0)])
    assert [line.get_ydata().tolist() for line in axes.lines] == [(STEPS * 1.0).tolist(), (STEPS * 0.0).tolist()]
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["qrc", "dqn"]


def test_long_lines_keep_their_ends():
    steps, returns = curve._thinned(np.arange(25_000), np.arange(25_000))
    assert (len(steps), steps[0], steps[-1]) == (1000, 0, 24_999)
    assert np.array_equal(steps, returns)


@pytest.mark.parametrize("series", [[], [("qrc", [], [])], [("qrc", [1000, 2000], [np.nan, np.nan])]])
def test_a_run_without_an_episode_says_so(series, tmp_path):
    axes = axes_of(series)
    assert [text.get_text() for text in axes.texts] == ["no episode has finished yet"]
    assert [*axes.get_xticks(), *axes.get_yticks()] == []
    learning_curve(series, tmp_path / "curve.png", "young")


def test_one_point_is_visible():
    assert axes_of([("qrc", [1000], [1.0])]).lines[0].get_marker() == "o"


def test_pictures_are_whole_repeatable_and_nothing_else_is_left(tmp_path):
    series = [("qrc", STEPS, STEPS / 100.0), ("dqn", STEPS, STEPS / 200.0)]
    for name in ("a.png", "b.png", "a.pdf", "b.pdf"):
        learning_curve(series, tmp_path / name, "both")
    image = Image.open(tmp_path / "a.png")
    assert image.size == (1152, 688)
    assert (0x00, 0x72, 0xB2) in {tuple(colour) for colour in np.asarray(image)[..., :3].reshape(-1, 3)}
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_an_unknown_kind_of_picture_is_refused(tmp_path):
    with pytest.raises(BadSetting, match=r"\.png, \.pdf, got 'curve\.jpeg'"):
        learning_curve([], tmp_path / "curve.jpeg", "")


def test_drawing_leaves_no_global_state_and_importing_loads_no_matplotlib(tmp_path):
    script = (
        "import sys, headrace.training.curve as c; assert 'matplotlib' not in sys.modules;"
        f"c.learning_curve([('a', [1], [1])], {str(Path(tmp_path / 'x.png'))!r}, 't');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
