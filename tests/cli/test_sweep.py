"""`headrace sweep` as a user types it: what is refused, what is shown."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from headrace.cli.main import main
from tests.small_runs import Command
from tests.sweep.support import TINY, held, tiny, tiny_words


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
        f"how = dict(seeds=[0, 1], steps=10_000, settings=[{TINY!r}], engine='learner')\n"
        "plan = lambda: grid('strq', 'minatar/breakout', **how)\n"
    )
    out = tmp_path / "out"
    held(out, 200)
    saving = held(out, 200, writing=True)
    words = ["sweep", str(tmp_path / "plan.py"), "--out", str(out), "--jobs", "2", "--checkpoint-every", "200"]
    process = command.start(*words, stderr=theirs)
    os.close(theirs)
    screen = Screen(ours)
    screen.wait_for(r"0/2 done  2 running")
    screen.wait_for(r"0/10k 0% +preparing  minatar/breakout seed 0  strq")
    saving.unlink()
    further = (held(out, step) for step in range(1200, 10_000, 200))  # a run tells its speed every second or so
    screen.wait_for(
        r"0/2 done  2 running  [\d,]+ steps/s  \d:\d\d to go\r\n +[\d.]+k/10k \d+% +[\d,]+ steps/s  m", further
    )
    (tmp_path / "hold").unlink()
    screen.read_all()
    printed = process.communicate()[0]
    assert process.returncode == 0, screen.seen
    assert screen.seen.endswith("\x1b[J")  # nothing is left of it
    assert printed.splitlines()[-1] == "2/2 done"


class Screen:
    """What a terminal is sent."""

    def __init__(self, terminal: int) -> None:
        self.terminal, self.seen = terminal, ""

    def wait_for(self, shown: str, meanwhile: Iterator[object] | None = None) -> None:
        """Until that is shown, or `meanwhile` has come to its end, of which a step is taken with each look."""
        meanwhile = meanwhile or repeat(None, 1000)
        while not re.search(shown, self.seen):
            assert next(meanwhile, self) is not self, f"{shown} is not in {self.seen}"
            assert not select.select([self.terminal], [], [], 0.25)[0] or self._read(), self.seen

    def read_all(self) -> None:
        while self._read():
            pass
        os.close(self.terminal)

    def _read(self) -> bool:
        """False once the other end is closed."""
        try:
            self.seen += os.read(self.terminal, 4096).decode()
        except OSError:
            return False
        return True
