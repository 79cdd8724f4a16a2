"""The live line: what fits, what comes first, and silence where nobody looks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import threading
from io import StringIO
from pathlib import Path

import pytest

from headrace.training import progress
from headrace.training.progress import Line, Progress, for_terminal, line
from headrace.training.run import make_run
from tests.small_runs import Command, small_words

RUN = make_run("qrc+spr+orth", "minatar/breakout", seed=7, steps=5e6)
MEANS = {"epsilon": 0.0123, "td_error": 0.0456, "q": 12.3, "aux_loss": -4.56}


def test_the_most_wanted_fits_into_eighty_columns() -> None:
    found = line(RUN, 1_239_999, 2345.6, 12.34, MEANS, width=79)
    assert found == "1.23M/5M 24%  2,346 steps/s  26:43 left  return 12.3  eps 0.0123  td 0.0456"


def test_a_wider_terminal_shows_which_run_and_its_losses() -> None:
    found = line(RUN, 1_239_999, 2345.6, 12.34, MEANS, width=140)
    assert found.startswith("qrc+spr+orth minatar/breakout seed 7  1.23M/5M 24%")
    assert found.endswith("eps 0.0123  td 0.0456  aux -4.56  q 12.3")


@pytest.mark.parametrize("width", range(64, 160))
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    found = line(RUN, 1_239_999, 12345.6, -123.4, MEANS, width)
    assert len(found) <= width
    assert "12,346 steps/s  5:04 left  return -123  eps 0.0123" in found


def test_before_anything_is_known() -> None:
    assert line(RUN, 0, 0.0, float("nan"), {}, 79) == (
        "qrc+spr+orth minatar/breakout seed 7  0/5M 0%  - steps/s  return -"
    )


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (950, "950/5M 0%"),
        (24_599, "24.5k/5M 0%"),
        (999_999, "999k/5M 19%"),
        (4_999_999, "4.99M/5M 99%"),
        (5_000_000, "5M/5M 100%"),
    ],
)
def test_steps_are_never_rounded_up(step: int, shown: str) -> None:
    assert shown in line(RUN, step, 1.0, 0.0, {}, 79)


def test_hours_are_shown() -> None:
    assert "1:23:20 left" in line(RUN, 0, 1000.0, 0.0, {}, 79)


def test_a_line_renews_itself_and_notices_stay() -> None:
    out = StringIO()
    shown = Line(out)
    shown.say("preparing")
    shown.notice("a checkpoint was passed over")
    shown.metrics(MEANS)
    shown.show(RUN, 5_000_000, 100.0, 1.0)
    shown.close()
    assert "\nheadrace" not in out.getvalue()
    assert "headrace: a checkpoint was passed over\n" in out.getvalue()
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith("\r\x1b[K")


def test_silence_where_standard_error_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = for_terminal()
    assert isinstance(quiet, Progress)
    quiet.say("preparing")
    quiet.show(RUN, 10, 1.0, 0.0)
    quiet.close()
    assert capsys.readouterr() == ("", "")
    quiet.notice("continuing from step 10")
    assert capsys.readouterr() == ("", "headrace: continuing from step 10\n")


@pytest.mark.parametrize("columns", [80, pytest.param(120, marks=pytest.mark.long)])
def test_a_real_terminal_sees_one_line(columns: int, command: Command, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = command.start(*small_words(tmp_path), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = everything_from(ours)
    assert process.wait(timeout=60) == 0

    *live, last = shown.replace("\r\n", "\n").split("\r\x1b[K")[1:]
    assert last == f"finished 3,000 steps: {next(tmp_path.iterdir())}  {last.partition('  ')[2]}"
    assert all(len(text) < columns and "\n" not in text for text in live)
    assert live[0].startswith("preparing")
    assert re.search(r"(^|  )\d[\d.]*k/3k \d+%  [\d,]+ steps/s  \d:\d\d left  return [-\d.e]+  eps 0.\d+", live[-1])
    assert ("qrc+spr+orth* minatar/breakout" in live[-1]) == (columns == 120)


def everything_from(terminal: int) -> str:
    data = b""
    while True:
        try:
            data += os.read(terminal, 65536)
        except OSError:  # the other side is closed
            os.close(terminal)
            return data.decode()


def test_what_takes_long_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SAY_SECONDS", 0.001)
    out, written = StringIO(), threading.Event()
    shown, write = Line(out), out.write

    def watched(text: str) -> int:
        if " ... 0:0" in text:
            written.set()
        return write(text)

    monkeypatch.setattr(out, "write", watched)
    shown.say("compiling")
    assert written.wait(60)
    shown.close()
    assert out.getvalue().startswith("\r\x1b[Kcompiling ...")


def test_a_line_that_a_narrower_terminal_has_wrapped_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    shown, widths = Line(out), iter((99, 39))
    monkeypatch.setattr(progress, "width_of", lambda _: next(widths))
    shown._write("x" * 99)
    shown._write("y")
    assert out.getvalue().endswith("\x1b[2A\r\x1b[Jy")
