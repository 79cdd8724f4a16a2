"""Ctrl-C at any moment of a command: one line, the status 130, no traceback; or the command was done before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli.interrupts import INTERRUPTED, is_importing
from tests.small_runs import only_run, small_words

# The program as `python -m headrace` runs it, with a sign when it has begun to listen: before, Python is being loaded.
PROGRAM = """
import os, sys
from headrace.__main__ import CtrlC, main

class WithSign(CtrlC):
    def listen(self):
        super().listen()
        os.write(1, b">")

main.__globals__["CtrlC"] = WithSign
sys.exit(main())
"""
STOPPED = "\nheadrace: stopped\n"


class Ended:
    """A command that was sent SIGINT so many seconds after it began."""

    def __init__(self, words: list[str], *delays: float) -> None:
        code = [sys.executable, "-c", PROGRAM, *words]
        process = subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 1) == b">"
        for delay in delays:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
        self.out, self.err, self.status = out.decode(), err.decode(), process.returncode


def moments(count: int, last: float) -> list[float]:
    """The more the earlier, as what happens there is shorter."""
    return [last * (i / count) ** 1.5 + 0.002 for i in range(count)]


MISTAKEN = ["train", "qrc", "minatar/brakeout"]


LONG = [pytest.param(words, marks=pytest.mark.long) for words in (["variants"], ["--help"])]


@pytest.mark.parametrize("words", [["envs"], MISTAKEN, *LONG], ids=" ".join)
def test_a_short_command_is_stopped_or_done(words: list[str]) -> None:
    begun = time.monotonic()
    whole = Ended(words)
    seconds = time.monotonic() - begun
    for moment in moments(5, seconds):
        ended = Ended(words, moment)
        if ended.status == INTERRUPTED:
            assert ended.err == STOPPED, f"after {moment:.3f} s"
        else:
            assert (ended.status, ended.out, ended.err) == (whole.status, whole.out, whole.err), f"after {moment:.3f} s"


@pytest.mark.parametrize(("engine", "count"), [("learner", 5), ("reference", 2)])  # compiling is not broken off
def test_training_is_stopped_before_anything_is_there_or_saved(engine: str, count: int, tmp_path: Path) -> None:
    for number, moment in enumerate(moments(count, 3.0)):
        training_is_stopped(engine, tmp_path / str(number), moment)


@pytest.mark.long
def test_ctrl_c_at_eighty_moments_of_training(tmp_path: Path) -> None:
    for number, moment in enumerate(moments(80, 2.0)):
        training_is_stopped("learner", tmp_path / str(number), moment)


def training_is_stopped(engine: str, out: Path, moment: float) -> None:
    when = f"after {moment:.3f} s"
    ended = Ended(small_words(out, "--quiet", steps=2_000_000, engine=engine), moment)
    assert ended.status == INTERRUPTED, f"{when}: {ended.err}"
    if ended.out:
        assert ended.err == "", when
        assert ended.out.startswith("stopped at step "), when
        assert any((only_run(out) / "checkpoints").iterdir()), when
    else:  # a framework may have warned before
        assert ended.err.endswith(STOPPED) or ended.err.startswith(STOPPED), when
        assert "Traceback" not in ended.err, when


def test_a_second_ctrl_c_ends_what_would_go_on_importing(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time\nprint('>', flush=True)\nwhile True:\n    time.sleep(0.01)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{LISTENING}import endless\n"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.decode()) == (INTERRUPTED, STOPPED)


LISTENING = "from headrace.cli.interrupts import CtrlC, stopped\nCtrlC().listen()\n"
SWALLOWING = """
import signal, time
from headrace.cli.interrupts import CtrlC, stopped

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

CtrlC().listen()
try:
    Finalised()
    time.sleep(600)
except KeyboardInterrupt:
    raise SystemExit(stopped())
"""


def test_what_a_finaliser_drops_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", SWALLOWING], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr) == (INTERRUPTED, STOPPED)


CATCHING = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    raise ImportError("as some packages make of it") from None
"""
IMPORTING = """
try:
    import catching, time
    time.sleep(600)
except KeyboardInterrupt:
    raise SystemExit(stopped())
"""


def test_an_import_comes_to_its_end_first(tmp_path: Path) -> None:
    (tmp_path / "catching.py").write_text(CATCHING)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{LISTENING}{IMPORTING}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr) == (INTERRUPTED, STOPPED)


def test_a_program_that_is_to_ignore_ctrl_c_ignores_it() -> None:
    code = (
        f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{LISTENING}signal.raise_signal(signal.SIGINT)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_frames_outside_of_an_import() -> None:
    assert not is_importing(None)
    assert not is_importing(sys._getframe())
