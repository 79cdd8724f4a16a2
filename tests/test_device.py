"""The device example: one binary of the learner and a game, whose curve is that of `headrace train`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from tests.small_runs import only_run

FOLDER = Path(__file__).parents[1] / "examples/device"


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the instruction set that every processor of this kind has; -O1 compiles in a third of the time."""
    folder = tmp_path_factory.mktemp("device")
    subprocess.run(["make", "-s", "-C", FOLDER, f"{folder}/breakout", f"OUT={folder}", "CFLAGS=-O1"], check=True)
    return folder / "breakout"


def said(binary: Path, *words: str) -> list[str]:
    return subprocess.run([binary, *words], capture_output=True, text=True, check=True).stdout.splitlines()


def test_it_prints_the_curve_of_the_same_run_of_headrace(binary: Path, tmp_path: Path) -> None:
    head, titles, *rows, speed = said(binary, "3000", "5")
    assert re.fullmatch(r"Breakout, Stream Q\(lambda\): learner \d+ bytes, game \d+ bytes", head)
    assert titles.split() == ["step", "return", "of", "the", "last", "100", "episodes"]
    assert re.fullmatch(r"3000 steps in [\d.]+ s: \d+ steps/s", speed)
    words = ("train", "strq", "minatar/breakout", "--seed", "5", "--steps", "3000", "--quiet", "--out", str(tmp_path))
    subprocess.run(
        [sys.executable, "-m", "headrace", *words], check=True, env={**os.environ, "HEADRACE_LEARNER_VARIANT": ""}
    )
    metrics = RunFolder.read(only_run(tmp_path)).metrics()
    expected = [(f"{step:.0f}", f"{mean:.2f}") for step, mean in zip(metrics["step"], metrics["return"], strict=True)]
    assert [tuple(row.split()[:2]) for row in rows] == expected
    for row in rows:
        _, mean, *marks = row.split()
        assert abs(len("".join(marks)) - 4 * float(mean)) <= 0.53  # rounded, from a mean of more digits


def test_a_long_run_prints_at_most_twenty_rows_and_the_last_step(binary: Path) -> None:
    rows = said(binary, "20500")[2:-1]
    assert [int(row.split()[0]) for row in rows] == [*range(2000, 20_001, 2000), 20_500]


@pytest.mark.parametrize("words", [("x",), ("0",), ("10", "-1"), ("1e6",)])
def test_a_bad_number_is_named(binary: Path, words: tuple[str, ...]) -> None:
    done = subprocess.run([binary, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("a whole number from ")
    assert done.stderr.endswith(f"got '{words[-1]}'\n")
