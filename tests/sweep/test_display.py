"""The live lines of a sweep, and the table at its end."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from headrace.runs.folder import Score
from headrace.sweep.display import Lines, Live, lines, summary, table
from headrace.sweep.status import Standing
from headrace.training.run import make_run


def stands(state: str, step: int = 0, rate: float = float("nan"), **more: object) -> Standing:
    run = make_run("qrc+spr", "minatar/breakout", seed=stands.count, steps=5e6)  # type: ignore[attr-defined]
    stands.count += 1  # type: ignore[attr-defined]
    return Standing(run, Path("runs") / run.name, state, step, rate, **more)  # type: ignore[arg-type]


def plan() -> list[Standing]:
    stands.count = 0  # type: ignore[attr-defined]
    return [
        stands("done", 5_000_000, score=Score(12.345, 50)),
        stands("running", 1_250_000, 2000.0, score=Score(3.0, 20)),
        stands("running"),
        stands("failed", cause="OSError: gone"),
        stands("diverged", 9, cause="q was no longer finite at step 9"),
        stands("left", 1000),
        stands("left"),
    ]


def test_the_live_lines_say_how_many_how_fast_how_long_and_which() -> None:
    left = 3_750_000 + 5_000_000 + 4_999_000 + 5_000_000  # steps, at 2 x 2,000 a second: 4,687 seconds
    assert left // 4000 == 4687
    assert lines(plan(), 99) == [
        "1/7 done  2 running  1 failed  1 diverged  2 left  4,000 steps/s  1:18:07 to go",
        "    1.25M/5M 25%    2,000 steps/s  minatar/breakout seed 1  qrc+spr",
        "         0/5M 0%        preparing  minatar/breakout seed 2  qrc+spr",
    ]


def test_many_runs_at_once_are_counted_and_no_line_is_too_long() -> None:
    found = lines([*plan(), *(stands("running", 10, 1.0) for _ in range(20))], 40)
    assert len(found) == 1 + 8 + 1
    assert found[-1] == "  and 14 more"
    assert max(map(len, found)) <= 40


def test_the_table_averages_seeds_and_names_what_went_wrong() -> None:
    found = [*plan(), stands("done", 5_000_000, score=Score(14.345, 50))]
    found.append(Standing(make_run("qrc", "minatar/asterix", steps=5e6), Path("runs"), "done", 5_000_000))
    failed, diverged = (s.run.name for s in found[3:5])
    assert table(found).splitlines() == [
        "agent    environment       steps  done                             score",
        "qrc+spr  minatar/breakout  5M     2 of 8 seeds (28% of the steps)  13.35 ± 1",
        "qrc      minatar/asterix   5M     1 of 1 seed                      -",
        f"failed: {failed}: OSError: gone",
        f"diverged: {diverged}: q was no longer finite at step 9",
        summary(found),
    ]


def test_new_lines_take_the_place_of_the_old_ones_and_a_notice_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.sweep.display.time.monotonic", lambda: 100.0)
    screen = StringIO()
    live = Live(screen)
    live.show(plan())
    live.show(plan())  # too soon
    live.notice("look")
    live.close()
    first = "".join(line + "\n" for line in lines(plan(), 79))
    assert screen.getvalue() == "\r\x1b[J" + first + "\x1b[3F\x1b[J" + "headrace: look\n" + "\r\x1b[J"


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = StringIO(), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    seldom = Lines(log)
    for clock[0] in (100.0, 119.0, 120.0, 139.0, 140.5):
        seldom.show(plan())
    assert log.getvalue() == 2 * f"headrace: {summary(plan())}  (1 preparing: what is new is compiled first)\n"
    clock[0] = 200.0
    seldom.show([s for s in plan() if s.state != "running"])
    assert log.getvalue().endswith("left\n")


def test_a_run_that_has_told_its_speed_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.sweep.display.LINE_SECONDS", 0.0)
    stands.count, log = 0, StringIO()  # type: ignore[attr-defined]
    Lines(log).show([stands("running", 0, 5.0), stands("running")])
    assert "(1 preparing: " in log.getvalue()
