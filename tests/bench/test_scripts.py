"""The scripts of `benchmarks/`, once and tiny: they run and print their table. No time is looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


def table(script: str, *words: str) -> list[str]:
    command = [sys.executable, str(SCRIPTS / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("|")]


def test_both_engines_in_one_table(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    words = ("--suites", "minatar", "--variants", "strq", "--seconds", "0.05", "--out", str(file))
    head, _, fast, reference = table("engines.py", *words)
    assert head.startswith("| suite | agent | engine | steps_per_s |")
    assert fast.startswith("| minatar/breakout | strq | fast |")
    assert reference.startswith("| minatar/breakout | strq | reference |")
    (found,) = json.loads(file.read_text())
    assert found["ratio"] > 0


def test_a_fleet_in_a_table() -> None:
    words = ("--game", "breakout", "--streams", "2", "--variants", "strq", "--seconds", "0.05")
    _, _, row = table("fleets.py", *words)
    assert row.startswith("| strq | 2 |")


def test_environments_in_a_table() -> None:
    _, _, row = table("environments.py", "--games", "pong", "--stretches", "1", "--steps", "5")
    assert row.startswith("| pong |")


def test_the_straightforward_way_in_a_table() -> None:
    _, _, row = table("straightforward.py", "--suites", "minatar", "--variants", "strq", "--seconds", "0.05")
    assert row.startswith("| minatar/breakout | `strq` |")


def test_instructions_in_a_table() -> None:
    head, _, *rows = table("instructions.py", "--suite", "minatar", "--variant", "strq", "--steps", "3", "--least", "0")
    assert head.startswith("| instruction | times |")
    assert rows[-1].startswith("| a step |")
    assert any(row.startswith("| `convolve 64 x 36 x 16` | 2 |") for row in rows)
