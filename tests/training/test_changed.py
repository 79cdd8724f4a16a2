"""A training whose tables somebody changes stops at once, saved; where they are put back it ends as if nothing was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from tests.small_runs import Command, assert_same_result, checkpoint_steps, only_run, small_words
from tests.sweep.support import held, wait_until

STEPS = 40_000
WORDS = ("--checkpoint-every", "10000")


def empty(table: Path) -> None:
    table.write_bytes(b"")


@pytest.mark.parametrize(("change", "name"), [(Path.unlink, "episodes.csv"), (empty, "metrics.csv")])
def test_a_table_that_is_changed_stops_the_training(
    change: Callable[[Path], None], name: str, whole: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    hold, words = held(out, 10_000), small_words(out, *WORDS, engine="learner", steps=STEPS)
    process = command.start(*words)
    wait_until(lambda: any(checkpoint_steps(run) == [10_000] for run in out.glob("[!.]*_*")), process)
    table = only_run(out) / name
    rows = table.read_bytes()
    change(table)
    hold.unlink()
    _, said = process.communicate(timeout=240)

    assert process.returncode == 1
    assert said.startswith(f"headrace: {table} {'is gone' if change is Path.unlink else 'has 0 bytes'}")
    assert "Traceback" not in said
    (saved,) = checkpoint_steps(only_run(out))[1:]
    assert 10_000 < saved < 20_000  # not only when the next one was due
    assert f"saved as of step {saved:,}: put back the {len(rows):,} bytes with SHA-256 " in said
    folder = RunFolder.read(only_run(out))
    assert folder.status == "failed"
    assert folder.manifest["cause"] in said.replace("headrace: ", "TableChanged: ")

    table.write_bytes(rows)
    again = command(*words)
    assert again.returncode == 0
    assert f"continuing from step {saved:,}" in again.stderr
    assert_same_result(folder.path, whole)


@pytest.fixture(scope="module")
def whole(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody touched."""
    out = tmp_path_factory.mktemp("whole")
    assert command(*small_words(out, *WORDS, engine="learner", steps=STEPS)).returncode == 0
    return only_run(out)
