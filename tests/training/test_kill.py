"""A run that is killed at any moment and started again ends like one that was left alone, to the bit."""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.runs.folder import RunFolder
from headrace.training.run import make_run
from headrace.training.single import Trained
from tests.small_runs import (
    GAME,
    SETTINGS,
    VARIANT,
    WAYS,
    Command,
    assert_same_result,
    checkpoint_steps,
    only_run,
    small_train,
    small_words,
)
from tests.sweep.support import held

STEPS, EVERY = 1500, 50  # steps of a run and between its checkpoints
LONGER = {
    "compiled": 1,
    "host": 1,
    "learner": 40,
}  # times as many where a step is over before anybody could interrupt it
KILLS = {"compiled": 1, "host": 1, "learner": 3}  # by the way to compute it: JAX takes seconds to start
MANY_KILLS = {"compiled": 8, "host": 6, "learner": 8}
PATIENCE = 240.0  # seconds; a busy machine may be slow


class Kill(NamedTuple):
    step: int  # of the newest checkpoint when the process died
    advanced: int  # steps of progress that this process had saved
    writing: bool  # whether a checkpoint was being written


def run_folder(out: Path, way: str) -> Path:
    return out / make_run(VARIANT, GAME, steps=STEPS * LONGER[way], settings=SETTINGS, **WAYS[way]).name


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool], pause: float = 0.002) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened for too long"
        time.sleep(pause)


def being_written(folder: Path) -> bool:
    return any(name.endswith(".tmp") for name in os.listdir(folder / "checkpoints"))


def newest(folder: Path) -> int:
    return max(checkpoint_steps(folder), default=0)


def interval(folder: Path) -> float:
    """Seconds between the last two checkpoints, or a guess."""
    times = [0.0]
    with suppress(FileNotFoundError):  # a checkpoint may be removed while we look
        times = sorted(path.stat().st_mtime for path in (folder / "checkpoints").glob("step-*"))
    return min(times[-1] - times[-2], 0.2) if len(times) > 1 else 0.05


def killed(process: subprocess.Popen[str], folder: Path, target: int, delay: float | None) -> Kill:
    """Kills the process once it has passed the target and a share `delay` of the time between two checkpoints is over;
    without a delay, while it writes a checkpoint, for which it is to be held there."""
    before = newest(folder)
    wait_for(process, lambda: newest(folder) >= target)
    if delay is None:
        wait_for(process, lambda: being_written(folder))
    else:
        time.sleep(delay * interval(folder))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return Kill(newest(folder), newest(folder) - before, being_written(folder))


@pytest.mark.parametrize(
    ("way", "count"),
    [*KILLS.items(), *(pytest.param(*many, marks=pytest.mark.long) for many in MANY_KILLS.items())],
)
def test_a_run_killed_over_and_over_equals_one_left_alone(
    way: str, count: int, command: Command, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    steps, every = STEPS * LONGER[way], EVERY * LONGER[way]
    words = ["--engine", WAYS[way]["engine"], "--form", WAYS[way]["form"], "--checkpoint-every", str(every)]
    alone = small_train(tmp_path / "alone", steps=steps, **WAYS[way])

    moments = random.Random(f"kill {way}")
    targets = sorted(moments.sample(range(every, steps - 5 * every), count))
    folder, kills = run_folder(tmp_path / "killed", way), []
    for number, aim in enumerate(targets):
        writing = (number + list(WAYS).index(way)) % 3 == 1  # a checkpoint: each way's third, the host form's first
        target = max(aim, newest(folder) + 1)
        hold = held(tmp_path / "killed", target + every, writing=writing)  # or it could be done before it is killed
        process = command.start(*small_words(tmp_path / "killed", *words, steps=steps))
        kills.append(killed(process, folder, target, None if writing else moments.random()))
        hold.unlink()
        assert kills[-1].writing or not writing
    last = command(*small_words(tmp_path / "killed", *words, steps=steps))

    assert last.returncode == 0
    assert f"finished {steps:,} steps" in last.stdout
    assert f"continuing from step {kills[-1].step:,}" in last.stderr
    record_property("kills", [tuple(kill) for kill in kills])
    unsaved = sum(kill.writing for kill in kills)
    print(f"\n{way}: {len(kills)} kills in mid-training, {unsaved} of them while a checkpoint was being written,")
    print("at steps", *(kill.step for kill in kills))
    assert sum(kill.advanced > 0 for kill in kills) == count
    assert len(RunFolder.read(folder).manifest["resumed"]) == count

    assert_same_result(folder, alone.path)
    episodes = RunFolder.read(folder).episodes()
    ends = episodes["length"].cumsum()
    assert episodes["step"].tolist() == ends.tolist()  # none twice, none lost: each begins where the last one ended


@pytest.mark.parametrize(
    ("engine", "number"), [("reference", signal.SIGINT), ("learner", signal.SIGTERM), ("learner", signal.SIGHUP)]
)
def test_a_run_asked_to_stop_saves_and_continues(
    engine: str, number: signal.Signals, command: Command, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    alone = request.getfixturevalue("finished_compiled" if engine == "reference" else "finished_learner")
    words = small_words(tmp_path / "runs", "--checkpoint-every", "100", engine=engine)
    path = tmp_path / "runs" / alone.path.name
    hold = held(tmp_path / "runs", 200)
    process = command.start(*words)
    wait_for(process, lambda: newest(path) >= 200)
    process.send_signal(number)
    hold.unlink()
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 130, err
    assert "Traceback" not in err
    step = newest(path)
    assert 200 <= step < alone.steps_done
    assert out == f"stopped at step {step:,} and saved; the same command continues: {path}\n"
    assert RunFolder.read(path).status == "interrupted"

    again = command(*words)
    assert again.returncode == 0
    assert again.stderr == f"headrace: continuing from step {step:,}\n"
    assert_same_result(path, alone.path)


def test_ctrl_c_before_the_first_step_leaves_a_run_that_the_same_command_begins(
    command: Command, finished_learner: Trained, tmp_path: Path
) -> None:
    words = small_words(tmp_path / "runs", "--checkpoint-every", "100", engine="learner")
    path = tmp_path / "runs" / finished_learner.path.name
    hold = held(tmp_path / "runs", 100)
    process = command.start(*words)
    wait_for(process, (path / "manifest.json").exists)
    process.send_signal(signal.SIGINT)
    hold.unlink()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert command(*words).returncode == 0
    assert_same_result(path, finished_learner.path)


def test_a_closed_terminal_stops_a_run_that_saves_and_continues(command: Command, tmp_path: Path) -> None:
    words = small_words(tmp_path / "runs", "--checkpoint-every", "500", engine="learner", steps=STEPS)
    hold = held(tmp_path / "runs", 1000)
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = command.start(*words, **streams, start_new_session=True, within=f": <> {os.ttyname(theirs)}")
    os.close(theirs)
    wait_for(process, lambda: any(newest(run) >= 1000 for run in (tmp_path / "runs").glob("[!.]*_*")))
    os.close(ours)
    hold.unlink()
    process.wait(timeout=PATIENCE)
    folder = RunFolder.read(only_run(tmp_path / "runs"))
    assert folder.manifest["status"] == "interrupted"
    assert newest(folder.path) >= 1000
    assert command(*words).returncode == 0
    assert command(*small_words(tmp_path / "alone", engine="learner", steps=STEPS)).returncode == 0
    assert_same_result(folder.path, only_run(tmp_path / "alone"))


def test_a_run_whose_terminal_is_to_be_ignored_goes_on(command: Command, tmp_path: Path) -> None:
    words = small_words(tmp_path / "runs", "--checkpoint-every", "500", engine="learner", steps=STEPS)
    hold = held(tmp_path / "runs", 1000)
    process = command.start(*words, within="trap '' HUP")
    wait_for(process, lambda: any(newest(run) >= 1000 for run in (tmp_path / "runs").glob("[!.]*_*")))
    process.send_signal(signal.SIGHUP)
    hold.unlink()
    assert process.wait(timeout=PATIENCE) == 0
