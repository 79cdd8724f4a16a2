"""Standard streams that are closed, or lack letters, stop no command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from tests.small_runs import Command, only_run, small_words


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_take_what_is_said(closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "headrace", "envs"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_training_needs_neither_standard_output_nor_its_letters(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = small_words(tmp_path / "ü", engine="learner", steps=1000)
    assert command(*words, within="exec >&-").returncode == 0
    folder = RunFolder.read(only_run(tmp_path / "ü"))
    folder.require_sound()
    assert folder.status == "finished"
    monkeypatch.setitem(command.environment, "PYTHONIOENCODING", "ascii")
    again = command(*words)
    assert again.returncode == 0
    assert again.stdout.startswith(f"already finished, nothing to do: {tmp_path}/\\xfc/")
