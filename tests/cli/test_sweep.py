"""`headrace sweep` as a user types it: what is refused, what is shown."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from headrace.cli.main import main
from tests.small_runs import Command
from tests.sweep.support import TINY, tiny, tiny_words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("qrc minatr/*", "headrace: an empty grid: no environment matches 'minatr/*'. "),
        ("qrc", "headrace: which environments? e.g. headrace sweep 'qrc' 'minatar/*'"),
        ("qrc,dqn minatar/* --set aux.weight=1", "headrace: qrc on minatar/asterix: cannot set aux.weight"),
        ("plan.py minatar/*", "headrace: plan.py says which runs there are; 'minatar/*' goes with a grid"),
        ("plan.py --seeds 0:2", "headrace: plan.py says which runs there are; --seeds goes with a grid"),
        ("plan.py --set td.lr=1", "headrace: plan.py says which runs there are; --set goes with a grid"),
        ("plan.py", "headrace: plan.py, line 2: ZeroDivisionError: division by zero"),
        ("nowhere.py", "headrace: there is no plan file nowhere.py"),
        (
            "qrc minatar/breakout --on moon",
            "headrace: unknown place to run a sweep 'moon'. Known: fleet, local, ray, slurm.",
        ),
        ("qrc minatar/breakout --form host --on fleet", "headrace: --on fleet has the reference engine"),
        ("qrc minatar/breakout --address here:1", "headrace: --address goes with --on ray, got --on local"),
        ("qrc minatar/breakout --on ray --time 3", "headrace: --time goes with --on slurm, got --on ray"),
        ("qrc minatar/breakout --streams 9", "headrace: --streams goes with --on fleet, got --on local"),
        ("qrc minatar/breakout --on slurm --time soon", "headrace: a time is minutes (90), hours (1:30)"),
        ("qrc minatar/breakout --jobs 1.5", "headrace: jobs must be a whole number"),
        (
            "qrc minatar/breakout --stop-after nan",
            "headrace: --stop-after must be a number of seconds from 0, got nan",
        ),
        (
            "qrc minatar/breakout --stop-after -1",
            "headrace: --stop-after must be a number of seconds from 0, got -1",
        ),
        (
            "qrc minatar/breakout --stop-after inf --status",
            "headrace: --stop-after must be a number of seconds from 0, got inf",
        ),
        ("qrc minatar/breakout --seeds 3:3", "headrace: an empty grid: the seeds '3:3' name none"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.py").write_text("def plan():\n    return 1 / 0\n")
    assert main(["sweep", *words.split()]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(said)
    assert printed.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["plan.py"]


def test_status_reads_and_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ("qrc,dqn", "minatar/breakout", "0:2", 1000)
    assert main(tiny_words(*grid, tmp_path / "out", "--status")) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.partition("minatar/breakout")[2].split() for row in rows[1:3]] == [
        ["1k", "0", "of", "2", "seeds", "(0%", "of", "the", "steps)", "-"]
    ] * 2
    assert rows[3:] == ["0/4 done  4 left"]
    assert main(tiny_words(*grid, tmp_path / "out", "--status", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["left"], found["seconds_left"], len(found["runs"])) == (4, None, 4)
    assert found["runs"][3] == {
        "name": tiny(*grid)[3].name, "agent": found["runs"][3]["agent"], "env": "minatar/breakout", "seed": 1,
        "steps": 1000, "path": str(tmp_path / "out" / tiny(*grid)[3].name), "state": "left", "step": 0,
        "steps_per_s": None, "cause": None, "score": None, "score_points": 0,
    }  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_a_terminal_shows_the_runs_that_are_on(command: Command, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    (tmp_path / "plan.py").write_text(
        "from headrace.sweep import grid\n"
        f"how = dict(seeds=[0, 1], steps=60000, settings=[{TINY!r}], engine='reference')\n"
        "plan = lambda: grid('strq', 'minatar/breakout', **how)\n"
    )
    words = ["sweep", str(tmp_path / "plan.py"), "--out", str(tmp_path / "out"), "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *words], env=command.environment, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 4096)
        except OSError:  # the other end was closed
            break
    printed = process.communicate()[0].decode()
    os.close(ours)
    screen = seen.decode()
    assert process.returncode == 0, screen
    assert "0/2 done  2 running" in screen
    assert re.search("0/60k 0% +preparing  minatar/breakout seed 0  strq", screen)
    assert "steps/s" in screen
    assert "to go" in screen
    assert screen.endswith("\x1b[J")  # nothing is left of it
    assert printed.splitlines()[-1] == "2/2 done"
