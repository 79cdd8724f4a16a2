"""Sweeps on this machine's cores: whatever is killed in the middle, the results are those of an undisturbed sweep."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from headrace.sweep import workers as local
from tests.small_runs import Command
from tests.sweep.support import (
    TINY,
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
    workers_of,
)

GRID = ("strq", "minatar/breakout", "0:5", 3000)
RUNS = tiny(*GRID, engine="learner")  # whose workers start in no time; one test takes the definition
HOW = ("--jobs", "2", "--checkpoint-every", "200", "--engine", "learner")


@pytest.fixture(scope="module")
def undisturbed(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that nothing happened to. Do not change it."""
    out = tmp_path_factory.mktemp("undisturbed")
    done = command(*tiny_words(*GRID, out, *HOW))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert run_names(out) == sorted(run.name for run in RUNS)
    return out


def assert_undisturbed(out: Path, undisturbed: Path) -> None:
    """No run is lost, none is there twice, and each came to what it comes to when left alone."""
    assert run_names(out) == run_names(undisturbed)
    assert results(out, RUNS) == results(undisturbed, RUNS)


def underway(out: Path, step: int, done: int) -> list[Path]:
    """The runs that are past the step and not finished, once so many are."""
    folders = [out / run.name for run in RUNS if (out / run.name).exists()]
    ended = [folder for folder in folders if finished(folder)]
    return [f for f in folders if f not in ended and newest(f) >= step] if len(ended) >= done else []


def test_a_sweep_whose_parent_is_killed_twice_continues(command: Command, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    words = tiny_words(*GRID, out, *HOW)
    for done in (0, 3):
        hold = held(out, 600, *(run.name for run in RUNS[done:]))
        process = command.start(*words)
        wait_until(lambda done=done: len(underway(out, 600, done)) == 2, process)
        workers = workers_of(process)
        assert_pinned(workers)
        kill(process.pid)
        process.communicate()
        wait_until(lambda workers=workers: not any(map(alive, workers)))
    assert [finished(out / run.name) for run in RUNS] == [True, True, True, False, False]

    hold.unlink()
    last = command(*words)
    assert last.returncode == 0, last.stderr
    assert "5/5 done" in last.stdout
    assert "continuing from step" in last.stderr
    assert_undisturbed(out, undisturbed)


def test_a_sweep_of_the_definition_whose_worker_and_whose_parent_are_killed_continues(
    command: Command, tmp_path: Path
) -> None:
    plan, how = ("strq", "minatar/breakout", "0", 1200), (*HOW, "--engine", "reference")
    runs, alone, killed = tiny(*plan), tmp_path / "alone", tmp_path / "killed"
    assert command(*tiny_words(*plan, alone, *how)).returncode == 0

    hold = held(killed, 200)
    process = command.start(*tiny_words(*plan, killed, *how))
    for step, whose in ((200, "worker"), (600, "parent")):
        hold = held(killed, step)
        wait_until(lambda step=step: all(newest(killed / run.name) >= step for run in runs), process)
        workers = workers_of(process)
        kill(workers[0] if whose == "worker" else process.pid)
    _, err = process.communicate()
    assert "failed, it is tried again: its process was killed by SIGKILL" in err
    wait_until(lambda: not any(map(alive, workers)))
    assert not any(finished(killed / run.name) for run in runs)

    hold.unlink()
    last = command(*tiny_words(*plan, killed, *how))
    assert (last.returncode, "1/1 done" in last.stdout) == (0, True), last.stderr
    assert run_names(killed) == run_names(alone)
    assert results(killed, runs) == results(alone, runs)


STUCK = """import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Stuck(CartPoleEnv):
    taken = 0

    def step(self, action):
        self.taken += 1
        if self.taken > 20:
            raise RuntimeError("the cart is stuck")
        return super().step(action)


gymnasium.register("Stuck-v0", Stuck)
"""


def test_a_run_that_fails_three_times_is_reported_with_its_cause_and_stops_no_other(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stuck_cart.py").write_text(STUCK)
    found = os.pathsep.join([str(tmp_path), command.environment["PYTHONPATH"]])
    monkeypatch.setitem(command.environment, "PYTHONPATH", found)
    words = ["sweep", "strq", "gym/Stuck-v0,gym/CartPole-v1", "--seeds", "0", "--steps", "2000"]
    done = command(*words, "--engine", "learner", "--import", "stuck_cart", "--quiet", "--out", str(tmp_path / "runs"))
    assert done.returncode == 1
    said = re.findall(
        r" failed(, it is tried again| for good): gym/Stuck-v0 raised RuntimeError at step (\d+)", done.stderr
    )
    assert said == [(", it is tried again", "21"), (", it is tried again", "41"), (" for good", "61")]
    assert "1/2 done  1 failed" in done.stdout
    (failed,) = (tmp_path / "runs").glob("*Stuck*")
    assert "the cart is stuck" in RunFolder.read(failed).manifest["cause"]


def assert_pinned(workers: list[int]) -> None:
    assert len(workers) == 2
    cores = [os.sched_getaffinity(pid) for pid in workers]
    if None not in local.places():  # else this is a container with a share of its machine
        assert [len(own) for own in cores] == [1, 1]
        assert len(set().union(*cores)) == min(2, len(os.sched_getaffinity(0)))
    for pid in workers:
        assert b"--xla_cpu_multi_thread_eigen=false" in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_worker_that_is_killed_is_replaced_and_a_second_sweep_refused_meanwhile(
    command: Command, undisturbed: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    words = tiny_words(*GRID, runs, *HOW)
    hold = held(runs, 400)  # so that it cannot be done before the second has begun
    process = command.start(*words)
    wait_until(lambda: bool(underway(runs, 400, 0)), process)
    kill(int((underway(runs, 400, 0)[0] / "lock").read_text().split()[0]))
    second = command(*words)
    hold.unlink()
    out, err = process.communicate(timeout=240)
    assert second.returncode == 1
    assert second.stderr == f"headrace: another process (pid {process.pid}) is sweeping into {runs}\n"
    assert process.returncode == 0, err
    assert re.search(r"failed, it is tried again: its process was killed by SIGKILL \(out of memory\?\)\n", err)
    assert "continuing from step" in err
    assert "5/5 done" in out
    assert_undisturbed(runs, undisturbed)


def test_a_sweep_asked_to_stop_saves_and_continues(command: Command, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    words = tiny_words(*GRID, out, *HOW)
    hold = held(out, 400, *(run.name for run in RUNS[1:]))
    process = command.start(*words)
    wait_until(lambda: len(underway(out, 400, 1)) == 2, process)
    workers = workers_of(process)
    process.send_signal(signal.SIGINT)
    hold.unlink()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert err == "headrace: saving; the same command continues\n"
    assert not any(map(alive, workers))
    statuses = [RunFolder.read(out / name).status for name in run_names(out)]
    assert set(statuses) <= {"finished", "interrupted"}
    assert "interrupted" in statuses

    status = json.loads(command(*words, "--status", "--json").stdout)
    assert status["done"] == statuses.count("finished")
    assert status["done"] + status["left"] == 5
    assert command(*words).returncode == 0
    assert_undisturbed(out, undisturbed)


def test_a_diverging_run_is_reported_and_stops_no_other(command: Command, tmp_path: Path) -> None:
    bound = ("td.lr=1e30", "td.kappa=2|0")  # without its bound, Stream Q takes steps of 1e30
    words = tiny_words("strq", "minatar/breakout", "0", 300, tmp_path, *(w for s in bound for w in ("--set", s)))
    good, bad = tiny("strq", "minatar/breakout", "0", 300, *bound)
    found = command(*words)
    assert found.returncode == 1
    assert re.search(rf"^diverged: {re.escape(bad.name)}: \w+ was no longer finite at step", found.stdout, re.M)
    assert re.search(r"td\.lr=1e\+30 network=.* 1 of 1 seed ", found.stdout)
    assert RunFolder.read(tmp_path / good.name).status == "finished"
    assert command(*words).stdout == found.stdout  # and it is not tried again


@pytest.mark.long
def test_a_run_of_a_sweep_equals_the_same_run_by_itself(command: Command, tmp_path: Path) -> None:
    """Although it was bound to one core and one thread."""
    plan = ("strq", "minatar/breakout", "3", 3000)
    assert command(*tiny_words(*plan, tmp_path / "sweep", "--jobs", "1")).returncode == 0
    words = ["--seed", "3", "--steps", "3000", "--set", TINY, "--engine", "reference", "--out", str(tmp_path / "alone")]
    assert command("train", "strq", "minatar/breakout", *words).returncode == 0
    assert results(tmp_path / "alone", tiny(*plan)) == results(tmp_path / "sweep", tiny(*plan))


def test_sixty_tiny_runs(command: Command, tmp_path: Path) -> None:
    done = command(*tiny_words("strq", "minatar/breakout", "0:60", 20, tmp_path, *HOW, "--json"))
    assert (done.returncode, done.stderr) == (0, "")
    runs = tiny("strq", "minatar/breakout", "0:60", 20, engine="learner")
    assert run_names(tmp_path) == sorted(run.name for run in runs)
    found = json.loads(done.stdout)
    assert (found["done"], [r["name"] for r in found["runs"]]) == (60, [run.name for run in runs])
    assert len({digest for digest, *_ in results(tmp_path, runs).values()}) == 60
    assert not list(tmp_path.glob("*/curve.png"))


@pytest.mark.long
def test_a_thousand_tiny_runs_cost_little_beyond_their_work(command: Command, tmp_path: Path) -> None:
    """A run, its work included, costs a worker less than 50 ms; and nobody's memory grows with the runs."""
    out, marks = tmp_path / "out", []  # time, runs begun, seconds of the workers, memory of everybody
    out.mkdir()
    with (tmp_path / "said").open("w") as said:  # more than a pipe holds
        process = command.start(*tiny_words("strq", "minatar/breakout", "0:1000", 20, out, "--jobs", "2"), stdout=said)
    while process.poll() is None:
        workers, begun = workers_of(process), len(run_names(out))
        memory = [resident(pid) for pid in (process.pid, *workers)]
        marks.append((time.monotonic(), begun, sum(map(busy_seconds, workers)), memory))
        time.sleep(0.25)
    assert (tmp_path / "said").read_text().endswith("\n1000/1000 done\n"), process.communicate()
    begin, end = next(m for m in marks if m[1] >= 100), [m for m in marks if m[1] < 1000 and 0 not in m[3]][-1]
    wall, busy = ((end[i] - begin[i]) / (end[1] - begin[1]) for i in (0, 2))
    print(f"\na run costs {1000 * busy:.1f} ms of CPU; a worker does one in {2000 * wall:.1f} ms; MiB of the sweep and")
    print(f"its workers at run {begin[1]}: {begin[3]}, at run {end[1]}: {end[3]}")
    assert busy < 0.050
    assert sum(end[3]) < sum(begin[3]) + 60


def busy_seconds(pid: int) -> float:
    """CPU time of a process; 0 once it has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def resident(pid: int) -> int:
    """Memory of a process in MiB; 0 once it has ended."""
    with suppress(OSError):
        return sum(int(kb) for kb in re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())) // 1024
    return 0


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ({}, math.inf),
    ],
)
def test_a_containers_share_of_the_machine_is_known(tmp_path: Path, files: dict[str, str], cores: float) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert local.allowed_cores(tmp_path) == cores


@pytest.mark.parametrize(("allowed", "wanted"), [(0.5, [None]), (2.9, [None, None]), (4.0, [3, 5, 6, 7])])
def test_a_share_of_a_machine_has_places_that_are_bound_to_no_core(
    monkeypatch: pytest.MonkeyPatch, allowed: float, wanted: list[int | None]
) -> None:
    monkeypatch.setattr(local, "available_cores", lambda: [3, 5, 6, 7])
    monkeypatch.setattr(local, "allowed_cores", lambda folder: allowed)
    assert local.places() == wanted
