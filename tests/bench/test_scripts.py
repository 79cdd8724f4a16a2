"""The scripts of `benchmarks/`, once and tiny: they run and print their table. No time is looked at. What compiles an
agent of full size is in the long run."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def table(script: str, *words: str) -> list[str]:
    command = [sys.executable, str(SCRIPTS / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("|")]


def test_environments_in_a_table() -> None:
    _, _, row = table("environments.py", "--games", "pong", "--stretches", "1", "--steps", "5")
    assert row.startswith("| pong |")


@pytest.mark.long
def test_the_straightforward_way_in_a_table() -> None:
    _, _, row = table("straightforward.py", "--suites", "minatar", "--variants", "strq", "--seconds", "0.05")
    assert row.startswith("| minatar/breakout | `strq` |")


def test_one_step_of_a_timeline_is_from_one_long_kernel_to_its_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))  # the script adds to them
    timeline = runpy.run_path(str(SCRIPTS / "timeline.py"))
    event, steps, once = timeline["Event"], 4, []
    for step in range(steps):
        once += [event(100.0 * step, 60.0, "long", ""), event(100.0 * step + 30, 10.0, "short", "")]
    twice = [event(100.0 * step + at, 70.0, "often", "") for step in range(steps) for at in (5, 95)]
    found = timeline["one_step"](sorted(once + twice), steps)
    assert [(one.begin, one.name) for one in found] == [(0, "long"), (5, "often"), (30, "short"), (95, "often")]
    assert timeline["one_step"](twice, steps) == []


def test_a_timeline_needs_an_accelerator() -> None:
    command = [sys.executable, str(SCRIPTS / "timeline.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )
    assert done.returncode == 1
    assert done.stderr.startswith("timeline.py watches an accelerator, and JAX finds none here")
    assert "Traceback" not in done.stderr
