"""What a user of the command line sees of an environment that cannot be had, or that fails on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.envs.gym import IMPORTS
from headrace.runs.folder import RunFolder
from tests.envs.gym import toys
from tests.small_runs import Command, only_run

TOYS = toys.__name__


def words(name: str, out: Path, *more: str) -> list[str]:
    return ["train", "strq", name, "--steps", "100", "--out", str(out), "--import", TOYS, *more]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("atari/pang", "unknown environment 'atari/pang'; did you mean 'atari/pong'? Known: atari/adventure, "),
        (
            "octax/spacejm",
            "unknown environment 'octax/spacejm'; did you mean 'octax/spacejam'? Known: octax/airplane, ",
        ),
        ("atri/pong", "unknown environment 'atri/pong'; did you mean 'atari/pong'? Known: atari/pong, octax/pong."),
        ("atari/", "'atari/' names no environment: name one, such as atari/adventure, atari/air_raid, "),
        ("octax/", "'octax/' names no environment: name one, such as octax/airplane, "),
        ("gym/", "'gym/' names no environment: give an id after the slash (any registered Gymnasium environment with "),
        ("gym/headrace/Imag-v0", "unknown environment 'gym/headrace/Imag-v0'; did you mean 'gym/headrace/Image-v0'?"),
        ("gym/Pendulum-v1", "StreamQ compares a few actions by number, and here an action is a point of a box: "),
        ("gym/headrace/Small-v0", "an image of 20 x 20 is too small for Conv("),
        (
            "gym/headrace/ChannelsFirst-v0",
            "gym/headrace/ChannelsFirst-v0 shows images of shape (3, 84, 84), which look ",
        ),
    ],
)
def test_one_that_cannot_be_had_is_told_in_a_line_before_anything_is_written(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IMPORTS, "")  # which --import sets for the process
    assert main(words(name, tmp_path / "runs")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"headrace: {says}")
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Falls", f"raised RuntimeError at step 40 ({Path(toys.__file__)}, line "),
        ("Grows", "gave at step 40 has shape (5,), not (4,): nothing can be learnt from it"),
    ],
    ids=["raises", "another shape"],
)
def test_one_that_fails_leaves_a_saved_run_and_its_cause(
    kind: str, says: str, command: Command, tmp_path: Path
) -> None:
    done = command(*words(f"gym/headrace/{kind}-v0", tmp_path, "--engine", "learner"))
    assert done.returncode == 1
    *_, told = done.stderr.splitlines()
    assert told.startswith("headrace: ")
    assert f"gym/headrace/{kind}-v0 " in told
    assert says in told
    assert told.endswith("saved as of step 39: fix the environment, and the same command continues from there.")
    folder = RunFolder.read(only_run(tmp_path))
    assert (folder.status, folder.manifest["cause"]) == ("failed", told.replace("headrace", "EnvironmentFault", 1))
    latest = folder.latest()
    assert latest is not None
    assert latest.step == 39
