"""Sweeps on real Ray, started on loopback: whatever is killed, the results are those of a sweep without Ray."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.runs.folder import RunFolder
from headrace.sweep import ray_bridge, ray_executor
from headrace.sweep.executor import Options
from tests.small_runs import Command
from tests.sweep.clusters import KEY, Cluster, ray_cluster
from tests.sweep.support import (
    alive,
    finished,
    held,
    kill,
    newest,
    results,
    run_names,
    tiny,
    tiny_words,
    wait_until,
)

GRID = ("strq", "minatar/breakout", "0:3", 5000)
RUNS = tiny(*GRID, engine="learner")  # whose workers start in no time
HOW = ("--checkpoint-every", "200", "--engine", "learner")


@pytest.fixture(scope="module")
def undisturbed(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep on this machine's cores that nothing happened to. Do not change it."""
    out = tmp_path_factory.mktemp("undisturbed")
    done = command(*tiny_words(*GRID, out, *HOW))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ray_cluster() as cluster:
        yield cluster


def started(command: Command, out: Path, *more: str) -> subprocess.Popen[str]:
    keyed = Command(Path(command.environment["JAX_COMPILATION_CACHE_DIR"]))
    keyed.environment |= KEY
    return keyed.start(*tiny_words(*GRID, out, *HOW, "--on", "ray", *more))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def assert_undisturbed(out: Path, undisturbed: Path) -> None:
    """No run is lost, none is there twice, nothing else is there; each came to what it comes to when left alone."""
    assert run_names(out) == run_names(undisturbed)
    assert results(out, RUNS) == results(undisturbed, RUNS)


def underway(out: Path, step: int) -> list[Path]:
    folders = [out / run.name for run in RUNS]
    return [f for f in folders if f.exists() and newest(f) >= step and not finished(f)]


def holder(folder: Path) -> int:
    """The process that has the run; 0 in the moment in which one puts its number there."""
    words = (folder / "lock").read_text().split()
    return int(words[0]) if words else 0


def test_a_worker_that_is_killed_has_its_run_resumed_and_ctrl_c_saves(
    command: Command, cluster: Cluster, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    hold = held(out, 600)  # or the run could be done before its process is dead
    process = started(command, out, "--address", cluster.address)
    wait_until(lambda: bool(underway(out, 600)), process)
    victim = underway(out, 600)[0]
    killed, reached = holder(victim), newest(victim)
    kill(killed)
    held(out, reached + 200, victim.name)  # the others go on: one of them may have got its core
    wait_until(lambda: holder(victim) not in (0, killed) and newest(victim) > reached, process)
    process.send_signal(signal.SIGINT)
    hold.unlink()
    code, _, err = ended(process)
    said = [line.removeprefix("headrace: ") for line in err.splitlines()]
    assert code == 130, err
    assert said[0] == f"the Ray cluster at {cluster.address} has 2 cores"
    assert any(re.search(r"goes on elsewhere from step \d[\d,]*: its process died$", line) for line in said), said
    assert said.count("saving; the same command continues") == 1
    assert all(line.startswith("headrace: ") for line in err.splitlines())  # nothing of Ray's own
    assert {RunFolder.read(out / name).status for name in run_names(out)} <= {"finished", "interrupted"}

    code, told, err = ended(started(command, out, "--address", cluster.address))
    assert code == 0, err
    assert "3/3 done" in told
    assert_undisturbed(out, undisturbed)


def test_an_address_that_does_not_answer_is_said(command: Command, tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody else gets this port, and nobody listens at it
        port = deaf.getsockname()[1]
        code, out, err = ended(started(command, tmp_path / "out", "--address", f"127.0.0.1:{port}"))
    assert (code, out) == (1, "")
    assert err.startswith(
        f"headrace: no Ray cluster answers at 127.0.0.1:{port}: [Errno 111] Connection refused; start"
    )
    assert list(tmp_path.iterdir()) == []


class Refused:
    """A bridge that Ray has told why it will not have it."""

    def __init__(self, why: str) -> None:
        ours, self.answers = socket.socketpair()
        with ours:
            ours.sendall(b"!")  # something is there to be read
        self.why = why

    def messages(self) -> list[dict[str, str]]:
        return [{"refused": self.why}]

    def end(self, patience: float) -> str:
        self.answers.close()
        return "it ended"


@pytest.mark.parametrize(
    ("ray_said", "why"),
    [
        ("Could not find any running Ray instance. Please specify the one to connect to.", "none is running"),
        ("Ray is of another version. Python is too.\nSo it is.", "Ray is of another version"),
        ("[Errno 113] No route to 10.0.0.1", "[Errno 113] No route to 10.0.0.1"),
    ],
)
def test_a_machine_that_is_in_no_cluster_is_said_in_one_sentence(
    ray_said: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would find the clusters of the other tests."""
    bridge = Refused(ray_bridge._why(ConnectionError(ray_said)))
    monkeypatch.setattr(ray_executor, "Program", lambda *_: bridge)
    place = ray_executor.Ray(tmp_path, Options(address="auto"))
    place.add(place.jobs(RUNS)[0])
    with pytest.raises(HeadraceError) as caught:
        place.wait(0.0)
    place.close()
    assert str(caught.value) == f"no Ray cluster of this machine answers: {why}; {ray_executor.REMEDY}"


def test_rays_client_is_named_as_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tiny_words(*GRID, tmp_path / "out", "--on", "ray", "--address", "ray://head:10001")) == 1
    said = capsys.readouterr().err
    assert said.startswith("headrace: Ray's client is not supported, got 'ray://head:10001': start the sweep on a ")
    assert "--address auto or the host:port that `ray start --head` printed" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("address", ["http://head:10001", "head", ":6379", "head:port"])
def test_an_address_is_host_and_port(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tiny_words(*GRID, tmp_path / "out", "--on", "ray", "--address", address)) == 1
    assert capsys.readouterr().err.startswith("headrace: the address of a Ray cluster is host:port")
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_machine_that_accepts_and_is_silent_is_given_up(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address, began = f"127.0.0.1:{silent.getsockname()[1]}", time.monotonic()
        code, _, err = ended(started(command, tmp_path / "out", "--address", address))
    assert code == 1
    assert err.startswith(f"headrace: no Ray cluster answers at {address}: ")
    assert time.monotonic() - began < 90


def test_a_sweep_whose_head_is_killed_ends_and_continues_on_the_next(
    command: Command, cluster: Cluster, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    hold = held(out, 600)  # or it could be done before its head is dead
    process = started(command, out, "--address", cluster.address)
    wait_until(lambda: bool(underway(out, 600)), process)
    cluster.kill_head()
    code, _, err = ended(process)
    assert code == 1
    assert "headrace: the Ray cluster was lost; its runs continue from their checkpoints" in err
    assert err.splitlines()[-1].startswith(f"headrace: no Ray cluster answers at {cluster.address}: ")
    assert any(not finished(out / run.name) for run in RUNS)

    hold.unlink()
    cluster.start_head()
    code, said, err = ended(started(command, out, "--address", cluster.address))
    assert code == 0, err
    assert "3/3 done" in said
    assert "continuing from step" in err
    assert_undisturbed(out, undisturbed)


@pytest.mark.long
def test_a_cluster_of_our_own_that_is_killed_is_started_again(
    command: Command, undisturbed: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    hold = held(runs, 600)
    process = started(command, runs, "--jobs", "2")
    wait_until(lambda: bool(underway(runs, 600)), process)
    for pid in _ancestors(holder(underway(runs, 600)[0]))[:1]:  # the raylet: the head of such a cluster
        kill(pid)
    hold.unlink()
    code, out, err = ended(process)
    assert code == 0, err
    assert err.count("started a Ray cluster here with 2 cores") == 2
    assert "the Ray cluster was lost" in err
    assert "3/3 done" in out
    assert_undisturbed(runs, undisturbed)


@pytest.mark.long
def test_a_killed_sweep_leaves_nobody_and_continues(command: Command, undisturbed: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    hold = held(runs, 600)
    process = started(command, runs, "--jobs", "2")
    wait_until(lambda: len(underway(runs, 600)) == 2, process)
    workers = [holder(folder) for folder in underway(runs, 600)]
    kill(process.pid)
    process.communicate()
    hold.unlink()
    code, out, err = ended(started(command, runs, "--jobs", "2"))
    assert not any(map(alive, workers))
    assert code == 0, err
    assert "3/3 done" in out
    assert_undisturbed(runs, undisturbed)


@pytest.mark.long
def test_runs_of_a_node_that_dies_are_resumed_on_another(command: Command, undisturbed: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    hold = held(runs, 600)  # or a run could be done before its machine is dead
    with ray_cluster(cores=1) as cluster:
        cluster.start(f"--address={cluster.address}", "--num-cpus=1")
        process = started(command, runs, "--address", cluster.address)
        wait_until(lambda: len(underway(runs, 600)) == 2, process)
        raylets = {_ancestors(holder(folder))[0]: folder for folder in underway(runs, 600)}
        assert len(raylets) == 2
        head = min(raylets)  # it was started first
        (other,) = set(raylets) - {head}
        for pid in (other, holder(raylets[other])):  # with a machine goes all that runs on it
            kill(pid)
        hold.unlink()
        code, out, err = ended(process)
    assert code == 0, err
    assert re.search(r"goes on elsewhere from step \d[\d,]*: its (node|process) died", err), err
    assert "3/3 done" in out
    assert_undisturbed(runs, undisturbed)


def _ancestors(pid: int) -> list[int]:
    """Its parent, that one's parent, and so on."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    parent = int(fields[1])
    return [parent, *(_ancestors(parent) if parent > 1 else [])]
