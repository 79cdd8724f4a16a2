"""Runs on other machines: what is told of them through shared storage, and what stops them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, require_package
from headrace.runs.folder import RunFolder
from headrace.sweep.executor import LOCK, Began, Job, Moved, Options, order
from headrace.sweep.remote import Cluster, ProgressFile, ProgressReader, Report, train_remotely
from headrace.sweep.worker import train_one
from headrace.training.pace import stop_requests
from tests.sweep.support import tiny

(RUN,) = tiny("strq", "minatar/breakout", "0", 1000, engine="learner")
JOB = Job((RUN,))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / LOCK).touch()
    return tmp_path


@pytest.fixture
def watch(out: Path, monkeypatch: pytest.MonkeyPatch) -> ProgressReader:
    monkeypatch.setattr("headrace.sweep.remote.LOOK_SECONDS", 0.0)
    return ProgressReader(out)


def never() -> bool:
    return False


def test_a_beacon_is_seen_to_begin_to_move_and_to_end(out: Path, watch: ProgressReader) -> None:
    shown = ProgressFile(never, out / ".sweep" / "running" / RUN.name)
    assert watch.news([JOB]) == []
    shown.say("preparing")
    assert watch.news([JOB]) == [Began(JOB)]
    shown.show(RUN, 300, 12.5, 0.0)
    shown.show(RUN, 301, 12.5, 0.0)  # too soon
    assert watch.news([JOB]) == []  # so was this: it had said something a moment ago
    shown._shown_at -= 10
    shown._told_at -= 10
    shown.show(RUN, 400, 12.5, 0.0)
    assert watch.news([JOB]) == [Moved(JOB, 400, 12.5)]
    assert watch.news([JOB]) == []
    shown.close()
    assert watch.news([JOB]) == []
    Cluster(out, Options()).close()
    assert [path.name for path in out.iterdir()] == [LOCK]


def test_what_a_killed_process_left_is_not_taken_for_the_next_one(out: Path, watch: ProgressReader) -> None:
    path = out / ".sweep" / "running" / RUN.name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"step": 900, "rate": 1.0}))
    assert watch.news([JOB]) == [Began(JOB), Moved(JOB, 900, 1.0)]
    watch.forget(JOB)
    assert watch.news([JOB]) == []
    path.write_text('{"step": 9')  # half-written
    assert watch.news([JOB]) == []


def test_a_machine_that_does_not_share_the_folder_says_so_and_writes_nothing(tmp_path: Path) -> None:
    report = train_remotely(order(JOB, tmp_path, Options()))
    assert "it must be on shared storage" in report.causes[RUN.name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("programs")
def test_a_run_is_trained_and_what_it_said_comes_back(out: Path) -> None:
    with RunFolder.open(out / RUN.name, RUN.identity(), {}) as folder:
        folder.resume()
        (folder.path / "checkpoints" / "step-000000000500.safetensors").write_text("not one")
    report = train_remotely(order(JOB, out, Options()))
    assert report.causes == {}
    assert report.notices[0].startswith(f"{RUN.name}: checkpoint step-000000000500.safetensors passed over")
    assert RunFolder.read(out / RUN.name).status == "finished"
    assert train_remotely(order(JOB, out, Options())) == Report({}, [])  # it is done


@pytest.mark.usefixtures("programs")
def test_a_request_to_stop_that_comes_before_training_listens_is_kept(out: Path) -> None:
    with stop_requests() as asked:
        signal.raise_signal(signal.SIGTERM)
        assert train_one([RUN], order(JOB, out, Options()), ProgressFile(asked, out / "beacon")) == {}
    assert RunFolder.read(out / RUN.name).status == "interrupted"


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(HeadraceError, match=r"--on ray needs the nosuchray package: pip install 'headrace\[ray\]'"):
        require_package("nosuchray", "ray", "--on ray needs the nosuchray")
