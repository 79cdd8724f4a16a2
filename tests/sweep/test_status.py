"""How a run stands, from its folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder, RunWriter
from headrace.sweep.status import counts, seconds_left, standing, standings, steps_per_second
from headrace.training.run import Run, make_run

RUN = make_run("qrc", "minatar/breakout", steps=10_000)


def opened(out: Path, run: Run = RUN) -> RunWriter:
    folder = RunFolder.open(out / run.name, run.identity(), {})
    folder.resume()
    return folder


def test_a_run_without_a_folder_is_left(tmp_path: Path) -> None:
    assert standing(RUN, tmp_path)[2:4] == ("left", 0)


def test_a_run_whose_lock_is_held_is_running_and_without_it_is_left(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.save_checkpoint(1500, {}, {})
    assert standing(RUN, tmp_path)[2:4] == ("running", 1500)
    folder.close()
    assert standing(RUN, tmp_path)[2:4] == ("left", 1500)


def test_progress_is_the_last_row_of_metrics_where_that_is_newer(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.save_checkpoint(1500, {}, {})
        for step in range(1000, 1_000_001, 1000):
            folder.append_metrics({"step": step, "return": step / 1000, **{f"filler{i}": 1 / 3 for i in range(60)}})
            folder.append_speed(step, 123.5, 1.0)
        folder.flush()
        found = standing(RUN, tmp_path)
    assert (tmp_path / RUN.name / "metrics.csv").stat().st_size > 1 << 20  # only its end is read
    assert found.step == 1_000_000
    assert found.rate == 123.5
    assert found.score == (975.5, 50)  # the mean of 951 .. 1,000
    assert found.score == (lambda m: (m.mean(), len(m)))(RunFolder.read(found.path).metrics()["return"][-50:])


def test_a_row_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.append_metrics({"step": 1000, "return": 1.0})
    with (tmp_path / RUN.name / "metrics.csv").open("a") as file:
        file.write("2000,")
    assert standing(RUN, tmp_path).step == 1000


@pytest.mark.parametrize(
    ("status", "details", "state", "cause"),
    [
        ("finished", {}, "done", ""),
        ("failed", {"cause": "it burnt"}, "failed", "it burnt"),
        ("diverged", {"diverged": {"quantity": "q", "step": 1234}}, "diverged", "q was no longer finite at step 1,234"),
        ("interrupted", {}, "left", ""),
        ("running", {"cause": "of a failure that is past"}, "left", ""),
    ],
)
def test_what_the_manifest_says(tmp_path: Path, status: str, details: dict, state: str, cause: str) -> None:
    with opened(tmp_path) as folder:
        folder.set_status(status, **details)
    found = standing(RUN, tmp_path)
    assert (found.state, found.cause) == (state, cause)
    assert found.step == (10_000 if state == "done" else 0)


def test_a_folder_that_is_no_run_or_another_run_is_a_failure_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / RUN.name).mkdir()
    (tmp_path / RUN.name / "diary.txt").touch()
    assert "is not a run" in standing(RUN, tmp_path).cause
    other = make_run("qrc", "minatar/breakout", steps=10_001)
    opened(tmp_path, other).close()
    (tmp_path / other.name).rename(tmp_path / "moved")
    (tmp_path / RUN.name / "diary.txt").unlink()
    (tmp_path / RUN.name).rmdir()
    (tmp_path / "moved").rename(tmp_path / RUN.name)
    found = standing(RUN, tmp_path)
    assert (found.state, "steps: the folder has 10001, this run has 10000" in found.cause) == ("failed", True)


def test_looking_changes_nothing_and_a_writer_is_not_disturbed(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    standing(RUN, tmp_path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    opened(tmp_path).close()


def test_time_left_is_the_steps_left_at_the_present_speed(tmp_path: Path) -> None:
    runs = [make_run("qrc", "minatar/breakout", seed=seed, steps=10_000) for seed in range(5)]
    with opened(tmp_path, runs[0]) as done:
        done.finish({})
    with opened(tmp_path, runs[1]) as one, opened(tmp_path, runs[2]):
        one.append_metrics({"step": 4000, "return": 0.0})
        one.append_speed(4000, 250.0, 16.0)
        one.flush()
        found = standings(runs, tmp_path)
        assert counts(found) == (1, 2, 0, 0, 2)
        assert steps_per_second(found) == 500.0  # the second is taken for as fast as the first
        assert seconds_left(found) == (6000 + 10_000 + 20_000) / 500
    assert seconds_left(standings(runs, tmp_path)) is None  # nobody is at work
