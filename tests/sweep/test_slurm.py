"""Sweeps by submitit: jobs that are preempted, stopped or killed come to what they come to when left alone.

The same jobs run by submitit's local executor, and (marked long) on a real Slurm of one node.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.errors import BadSetting
from headrace.runs.folder import RunFolder
from headrace.runs.lock import is_held
from headrace.sweep import slurm
from headrace.sweep.driver import Swept, sweep
from headrace.sweep.executor import EXECUTORS, Ended, Options, Said, SlurmOptions, minutes, slurm_options
from tests.small_runs import Command
from tests.sweep import slurm_here
from tests.sweep.submitted import LocalQueue, Submitted, preempt
from tests.sweep.support import held, holding, kill, newest, results, run_names, tiny, tiny_words, wait_until
from tests.sweep.test_driver import Heard

GRID = ("strq", "minatar/breakout", "0:2", 3000)
RUNS = tiny(*GRID, engine="learner")  # whose workers start in no time


@pytest.fixture(scope="module")
def undisturbed(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep on this machine's cores that nothing happened to. Do not change it."""
    out = tmp_path_factory.mktemp("undisturbed")
    done = command(*tiny_words(*GRID, out, "--engine", "learner"))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs in processes of this machine, whose runs can be held."""
    monkeypatch.setitem(EXECUTORS, "submitted", "tests.sweep.submitted:Submitted")
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 1.0)
    monkeypatch.setattr(LocalQueue, "made", {})
    monkeypatch.setattr(LocalQueue, "asked", False)
    monkeypatch.setenv("PYTHONPATH", holding()["PYTHONPATH"])


class During(Heard):
    """Does things one after the other in the middle of a sweep, each as soon as it can be done."""

    def __init__(self, *todo: tuple[Callable[[], bool], Callable[[], object]]) -> None:
        super().__init__()
        self.todo = list(todo)

    def show(self, found: Any) -> None:
        if self.todo and self.todo[0][0]():
            self.todo.pop(0)[1]()


def swept(out: Path, display: Heard, **more: Any) -> Swept:
    return sweep(RUNS, out, on="submitted", checkpoint_every=200, display=display, **more)


def job_of(out: Path, run: Any) -> str:
    return (out / ".sweep" / "slurm" / "runs" / run.name).read_text()


def assert_undisturbed(out: Path, undisturbed: Path) -> None:
    """No run is lost, none is there twice, nothing else is there; each came to what it comes to when left alone."""
    assert run_names(out) == run_names(undisturbed)
    assert results(out, RUNS) == results(undisturbed, RUNS)


@pytest.mark.usefixtures("submitted")
def test_a_job_that_is_preempted_is_saved_where_it_is_and_goes_on_there(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    first, hold = out / RUNS[0].name, held(out, 600, RUNS[0].name)
    heard = During((lambda: newest(first) >= 600, lambda: (preempt(job_of(out, RUNS[0])), hold.unlink())))
    assert [s.state for s in swept(out, heard).standings] == ["done", "done"]
    (resumed,) = RunFolder.read(first).manifest["resumed"]
    assert resumed["step"] >= 600
    assert f"{RUNS[0].name}: continuing from step {resumed['step']:,}" in heard.notices
    assert len(LocalQueue.made) == 2  # the same job, queued again
    assert_undisturbed(out, undisturbed)


@pytest.mark.long
@pytest.mark.usefixtures("submitted")
def test_a_job_that_vanishes_is_submitted_again(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    hold = held(out, 600, RUNS[0].name)

    def vanish() -> None:
        number = job_of(out, RUNS[0])
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for pid in (number, *children):
            kill(int(pid))
        hold.unlink()

    heard = During((lambda: newest(out / RUNS[0].name) >= 600, vanish))
    assert [s.state for s in swept(out, heard).standings] == ["done", "done"]
    assert any(f"{RUNS[0].name} goes on elsewhere from step" in notice for notice in heard.notices), heard.notices
    assert len(LocalQueue.made) == 3
    shutil.rmtree(out / ".sweep")  # the papers of a job that ended badly are kept
    assert_undisturbed(out, undisturbed)


@pytest.mark.usefixtures("submitted")
def test_a_stopped_sweep_saves_where_it_is_and_continues(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    both, hold = [out / run.name for run in RUNS], held(out, 400)
    heard = During(
        (lambda: all(newest(path) >= 400 for path in both), lambda: os.kill(os.getpid(), signal.SIGINT)),
        (lambda: LocalQueue.asked, hold.unlink),
    )
    assert swept(out, heard).interrupted
    assert [RunFolder.read(path).status for path in both] == ["interrupted"] * 2
    assert [s.state for s in swept(out, Heard()).standings] == ["done", "done"]
    assert_undisturbed(out, undisturbed)


@pytest.mark.usefixtures("submitted")
def test_a_job_is_lost_once_it_was_missed_twice(tmp_path: Path) -> None:
    """Its report may be late on shared storage."""
    place = Submitted(tmp_path, Options())
    (job,) = place.jobs(RUNS[:1])
    place._submitted["7"] = job
    assert place._ask() == []
    assert place._ask() == [Ended(job, {}, "job 7 is gone")]
    place.close()


# What is asked of Slurm


@pytest.mark.parametrize(("text", "wanted"), [("90", 90), ("1:30", 90), ("2-0", 2880), ("1-12:30", 2190), ("2", 2)])
def test_times_are_written_as_slurm_writes_them(text: str, wanted: int) -> None:
    assert minutes(text) == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"time": "soon"}, "a time is minutes"),
        ({"time": "1"}, "at least two minutes"),
        ({"time": "1:75"}, "a time is minutes"),
        ({"memory": -1.0}, "memory is a number of gigabytes, got -1.0"),
        ({"sbatch": ["account"]}, "NAME=VALUE"),
        ({"sbatch": ["time=5"]}, "sbatch's time is chosen by the sweep"),
    ],
)
def test_what_slurm_cannot_be_asked_is_said(words: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        slurm_options(**words)


def test_a_machine_without_slurm_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(tiny_words(*GRID, tmp_path / "out", "--on", "slurm")) == 1
    assert capsys.readouterr().err.startswith("headrace: --on slurm needs Slurm's commands; not found: sbatch, srun")
    assert not (tmp_path / "out").exists()


def stand_in(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with the names of Slurm's commands, first in the path."""
    folder.mkdir()
    for name in ("sbatch", "srun", "squeue", "scancel", "scontrol"):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_slurm_that_refuses_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path / "bin", "echo sbatch: error: invalid partition >&2; exit 1", monkeypatch)
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\n")
    assert main(tiny_words(*GRID, tmp_path / "out", "--on", "slurm", "--partition", "nowhere")) == 1
    said = capsys.readouterr().err
    assert said.splitlines()[-1] == "headrace: Slurm did not take the jobs: sbatch: error: invalid partition"
    assert not (tmp_path / "out").exists()


def test_a_slurm_that_does_not_answer_is_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path / "bin", "echo sbatch: fatal: No configuration source >&2; exit 1", monkeypatch)
    assert main(tiny_words(*GRID, tmp_path / "out", "--on", "slurm")) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "headrace: Slurm did not take the jobs: sbatch: fatal: No configuration source. Slurm does not answer here: "
        "call this on a machine of a Slurm cluster, or train on this one with --on local"
    )


def test_the_script_for_slurm_asks_for_what_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for sbatch keeps the script that it is given."""
    stand_in(tmp_path / "bin", f'cp "$1" {tmp_path}/script\necho Submitted batch job 7', monkeypatch)
    options = Options(jobs=5, slurm=SlurmOptions("cpu", 90, 1.5, ("account=lab", "qos=low")))
    place = slurm.Slurm(tmp_path / "out", options)
    for job in place.jobs(RUNS):
        place.add(job)
    assert place.wait(0.0)[0] == Said("gave 2 runs to Slurm as job 7")
    asked = {line.removeprefix("#SBATCH --") for line in (tmp_path / "script").read_text().splitlines()}
    assert asked >= {
        "array=0-1%2", "time=90", "mem=1536M", "cpus-per-task=1", "partition=cpu", "account=lab", "qos=low", "requeue",
        "signal=USR2@120", "job-name=headrace",
    }  # fmt: skip


# A real Slurm of one node


@pytest.fixture
def real_slurm(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    if missing := slurm_here.what_is_missing():
        warnings.warn(f"no real Slurm was tried: {missing}", stacklevel=1)
        pytest.skip(missing)
    with slurm_here.slurm(tmp_path_factory.mktemp("slurm")) as environment:
        inside = Command(Path(command.environment["JAX_COMPILATION_CACHE_DIR"]))
        inside.environment |= environment
        yield inside


@pytest.mark.long
def test_on_a_real_slurm_a_killed_sweep_preemption_and_the_time_limit_change_nothing(
    real_slurm: Command, command: Command, tmp_path: Path
) -> None:
    """A quarter of an hour, much of which Slurm keeps a job waiting that was queued again."""
    grid = ("strq", "minatar/breakout", "0:2", 1_500_000)
    runs, ours, theirs = tiny(*grid), tmp_path / "ours", tmp_path / "theirs"
    words = tiny_words(*grid, ours, "--on", "slurm", "--time", "2")

    first = real_slurm.start(*words)
    wait_until(lambda: all(is_trained(ours / run.name) for run in runs), first)
    kill(first.pid)
    first.communicate()

    second = real_slurm.start(*words)
    asked = ["sbatch", "--partition=high", "--ntasks=2", f"--output={tmp_path}/high", "--wrap=sleep 3"]
    subprocess.run(asked, env=real_slurm.environment, check=True, capture_output=True)
    out, err = second.communicate(timeout=1500)
    assert second.returncode == 0, err
    assert "2/2 done" in out
    resumptions = [len(RunFolder.read(ours / run.name).manifest["resumed"]) for run in runs]
    assert min(resumptions) >= 2, resumptions  # once preempted, and at least once at the end of its time
    undisturbed = command.start(*tiny_words(*grid, theirs))
    undisturbed.communicate(timeout=1500)
    assert undisturbed.returncode == 0
    assert results(ours, runs) == results(theirs, runs)
    assert run_names(ours) == run_names(theirs)


def is_trained(folder: Path) -> bool:
    return (folder / "manifest.json").exists() and is_held(folder)
