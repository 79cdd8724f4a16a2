"""Fleets: each stream is the run it would be alone; killed or stopped, they continue as if they had not been."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from headrace.engines.jax.compiled import CompiledStream
from headrace.engines.jax.fleet import _CARD, Fleet
from headrace.errors import BadSetting
from headrace.runs.folder import RunFolder
from headrace.sweep.plan import grid
from headrace.sweep.status import standing
from headrace.training.fleet import FleetResult, _together, train_fleet
from headrace.training.pace import Pace
from headrace.training.progress import Progress
from headrace.training.run import Run
from headrace.training.single import train_run
from tests.small_runs import Command, StopAt, checkpoint_steps
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

GRID = ("dqn", "minatar/breakout,minatar/freeway", "0:2", 2100)
RUNS = tiny(*GRID)
HOW = ("--on", "fleet", "--checkpoint-every", "500")


class Notices(Progress):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, what: str) -> None:
        self.notices.append(what)


PROGRAMS: dict[Any, Any] = {}  # of fleets, by what is part of a program


@pytest.fixture(scope="module", autouse=True)
def shared_programs() -> Iterator[None]:
    """A fleet takes the program of an earlier one whose agents have the same parts and whose games are the same: to
    trace and load it again takes seconds."""
    init = Fleet.__init__

    def made(self: Fleet, agents: Any, envs: Any, seeds: Any, steps: int) -> None:
        init(self, agents, envs, seeds, steps)
        kinds = jax.tree.structure(agents[0]), tuple(repr(vars(env)) for env in envs), self.layout.network
        self._some = PROGRAMS.setdefault(kinds, self._some)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fleet, "__init__", made)
        yield
    PROGRAMS.clear()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep in a fleet that nothing happened to. Do not change it."""
    out = tmp_path_factory.mktemp("undisturbed")
    assert len(fleet_of(out).finished) == len(RUNS)
    assert run_names(out) == sorted(run.name for run in RUNS)
    return out


def assert_undisturbed(out: Path, undisturbed: Path) -> None:
    assert run_names(out) == run_names(undisturbed)
    assert results(out, RUNS) == results(undisturbed, RUNS)


def test_a_fleet_whose_worker_and_whose_parent_are_killed_continues(
    command: Command, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    words, last = tiny_words(*GRID, out, *HOW), out / RUNS[-1].name
    held(out, 500, last.name)
    process = command.start(*words)
    wait_until(lambda: newest(last) >= 500, process)
    kill(workers_of(process)[0])  # the sweep goes on by itself
    hold = held(out, 1500, last.name)
    wait_until(lambda: newest(last) >= 1500, process)
    workers = workers_of(process)
    kill(process.pid)
    _, err = process.communicate()
    assert len(re.findall(r"failed, it is tried again: its process was killed by SIGKILL", err)) == 4
    assert re.search(r"continuing from step \d", err)
    wait_until(lambda: not any(map(alive, workers)))
    assert not any(finished(out / run.name) for run in RUNS)

    hold.unlink()
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("headrace: no accelerator was found: the fleet runs on the CPU\n")
    assert "4/4 done" in done.stdout
    assert_undisturbed(out, undisturbed)


def fleet_of(out: Path, runs: list[Run] = RUNS, **more: Any) -> FleetResult:
    return train_fleet(runs, out, **{"checkpoint_every": 500, **more})


class Removes(Progress):
    """A table, once the fleet has reached a step."""

    def __init__(self, table: Path, step: int) -> None:
        self.table, self.step = table, step
        self.rows: bytes | None = None

    def show(self, run: Any, step: int, rate: float, mean_return: float) -> None:
        if step >= self.step and self.rows is None:
            self.rows = self.table.read_bytes()
            self.table.unlink()


@pytest.mark.usefixtures("programs")
def test_a_fleet_goes_on_without_a_run_whose_table_is_removed(undisturbed: Path, tmp_path: Path) -> None:
    lost, *others = RUNS
    removes = Removes(tmp_path / lost.name / "episodes.csv", 1000)
    result = fleet_of(tmp_path, progress=removes)
    assert sorted(result.finished) == sorted(run.name for run in others)
    assert re.search(r"episodes\.csv is gone\. The run stops, saved as of step [12],\d00", result.failed[lost.name])
    assert results(tmp_path, others) == results(undisturbed, others)
    assert RunFolder.read(tmp_path / lost.name).status == "failed"
    assert removes.rows is not None
    removes.table.write_bytes(removes.rows)
    (saved,) = checkpoint_steps(tmp_path / lost.name)[1:]
    said = Notices()
    assert fleet_of(tmp_path, progress=said).finished.count(lost.name) == 1
    assert said.notices == [f"continuing from step {saved:,}"]


@pytest.mark.usefixtures("programs")
def test_a_fleet_that_died_while_saving_goes_back_to_where_all_were_saved(undisturbed: Path, tmp_path: Path) -> None:
    stopped = fleet_of(tmp_path, progress=StopAt(1500))
    assert stopped.interrupted == [run.name for run in sorted(RUNS, key=lambda r: (r.env.name, r.name))]
    for run in RUNS[2:]:  # these had not been saved when the process died
        os.unlink(tmp_path / run.name / "checkpoints" / "step-000000001500.safetensors")
    assert [newest(tmp_path / run.name) for run in RUNS] == [1500, 1500, 1000, 1000]

    said = Notices()
    result = fleet_of(tmp_path, progress=said)
    assert len(result.finished) == 4
    assert said.notices == [
        "2 of 4 runs go back to step 1,000, where all of the fleet were saved (the furthest was at 1,500)",
        "continuing from step 1,000",
    ]
    assert_undisturbed(tmp_path, undisturbed)


@pytest.mark.usefixtures("programs")
def test_a_run_whose_tables_lost_rows_begins_again_after_the_others(undisturbed: Path, tmp_path: Path) -> None:
    lost = RUNS[0]
    fleet_of(tmp_path, progress=StopAt(1000))
    episodes = tmp_path / lost.name / "episodes.csv"
    episodes.write_text(episodes.read_text()[: len("step,return,length\n")])
    said = Notices()
    assert len(fleet_of(tmp_path, progress=said).finished) == 4
    assert said.notices[:2] == [
        f"trained after the others: {lost.name}",
        "continuing from step 1,000",
    ]
    assert all(notice.startswith(f"{lost.name}: ") for notice in said.notices[2:])
    assert (tmp_path / lost.name / "episodes.csv.damaged").exists()
    assert results(tmp_path, RUNS) == results(undisturbed, RUNS)


class Stands:
    """A run as `_together` sees it, with checkpoints at these steps."""

    resumed_at = -1

    def __init__(self, saved: set[int]) -> None:
        self.folder, self.saved = self, saved

    def checkpoint_steps(self) -> set[int]:
        return self.saved

    def go_back_to(self, step: int) -> None:
        self.saved = {saved for saved in self.saved if saved <= step}

    def resume(self) -> None:
        self.resumed_at = max(self.saved, default=0)


@pytest.mark.parametrize(
    ("saved", "step", "places"),
    [
        ([{5, 6}, {5, 6}, {4, 5}], 5, [0, 1, 2]),  # died while saving: nobody loses more than a checkpoint
        ([{5}, set(), {5}], 0, [0, 1, 2]),  # the same at the first checkpoint
        ([{5}, {5, 6}], 5, [0, 1]),  # a damaged one was set aside
        ([{5, 6}, set(), {5, 6}], 6, [0, 2]),  # tables were lost
        ([{5, 6}, set(), set()], 0, [1, 2]),  # begun later
        ([{5, 6}, {8, 9}], 9, [1]),  # trained apart before
    ],
)
def test_no_run_of_a_fleet_is_sent_back_by_more_than_a_checkpoint(saved, step, places):
    members: list[Any] = [Stands(steps) for steps in saved]
    chosen = _together(members, str)
    assert [members.index(member) for member in chosen] == places
    assert {member.resumed_at for member in chosen} == {step}
    assert {member.resumed_at for member in members if member not in chosen} <= {-1}


@pytest.mark.usefixtures("programs")
def test_a_stream_that_diverges_is_frozen_and_the_others_do_not_notice(undisturbed: Path, tmp_path: Path) -> None:
    (absurd,) = tiny("dqn", "minatar/breakout", "1", 2100, "td.lr=1e30")
    runs = [absurd if run == RUNS[1] else run for run in RUNS]
    others = [run for run in RUNS if run != RUNS[1]]
    said = Notices()
    result = fleet_of(tmp_path / "whole", runs, progress=said)
    assert (result.diverged, len(result.finished)) == ([absurd.name], 3)
    assert re.fullmatch(rf"{re.escape(absurd.name)} diverged: \w+ at step \d+", said.notices[0])
    found = standing(absurd, tmp_path / "whole")
    assert (found.state, found.step) == ("diverged", 0)
    assert re.search(r"was no longer finite at step \d+$", found.cause)
    assert results(tmp_path / "whole", others) == results(undisturbed, others)

    fleet_of(tmp_path / "stopped", runs, progress=StopAt(1000))  # and it is kept out of the way after a restart
    again = fleet_of(tmp_path / "stopped", runs)
    assert (again.diverged, len(again.finished)) == ([absurd.name], 3)
    assert results(tmp_path / "stopped", others) == results(undisturbed, others)
    assert standing(absurd, tmp_path / "stopped").state == "diverged"


@pytest.mark.usefixtures("programs")
def test_a_run_that_another_process_trains_is_left_out(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / RUNS[0].name)
    with RunFolder.open(tmp_path / "out" / RUNS[0].name, RUNS[0].identity(), {}):
        result = fleet_of(tmp_path / "out")
    assert list(result.refused) == [RUNS[0].name]
    assert f"another process (pid {os.getpid()}) is training" in result.refused[RUNS[0].name]
    assert len(result.finished) == 3


def kept_by(folder: Path) -> dict[str, object]:
    """Which files and columns there are, and what a manifest says."""
    tables = {path.name: path.read_text().partition("\n")[0] for path in folder.glob("*.csv")}
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {"files": files, "tables": tables, "manifest": sorted(RunFolder.read(folder).manifest)}


@pytest.mark.usefixtures("programs")
def test_the_folder_of_a_stream_is_that_of_a_single_run(undisturbed: Path, tmp_path: Path) -> None:
    train_run(RUNS[0], tmp_path, (), Pace(500, 60.0), Progress(), draw=False)
    theirs, ours = kept_by(tmp_path / RUNS[0].name), kept_by(undisturbed / RUNS[0].name)
    assert theirs["tables"].keys() == {"episodes.csv", "metrics.csv", "speed.csv"}  # type: ignore[attr-defined]
    assert ours == {**theirs, "manifest": sorted([*theirs["manifest"], "streams"])}  # type: ignore[misc]


@pytest.mark.usefixtures("programs")
def test_a_run_whose_folder_cannot_be_read_is_left_out(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / RUNS[3].name)
    (tmp_path / "out" / RUNS[0].name / "manifest.json").write_text("{")
    result = fleet_of(tmp_path / "out")
    assert list(result.refused) == [RUNS[0].name]
    assert "manifest.json" in result.refused[RUNS[0].name]
    assert sorted(result.finished) == sorted(run.name for run in RUNS[1:])


def test_where_no_folder_can_be_had_nothing_is_trained(tmp_path: Path) -> None:
    for run in RUNS:
        (tmp_path / run.name).mkdir()
        (tmp_path / run.name / "manifest.json").write_text("{")
    result = fleet_of(tmp_path)
    assert result == ([], [], [], {}, result.refused)
    assert sorted(result.refused) == sorted(run.name for run in RUNS)


@pytest.mark.usefixtures("programs")
def test_traces_history_and_window_are_restored_to_the_bit() -> None:
    """In the middle of a block, of an episode and of SPR's window."""
    runs = tiny("qrc+spr+orth", "minatar/breakout,minatar/freeway", "0", 100_000, "aux.objective.horizon=2")

    def fleet() -> Fleet:
        return Fleet([run.agent for run in runs], [run.env.compiled() for run in runs], [0, 0], 100_000)

    through, restored = fleet(), fleet()
    through.begin()
    through.run(137)
    restored.restore(through.save())
    through.run(137)
    restored.run(137)
    for ours, theirs in zip(_saved(restored), _saved(through), strict=True):
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_array_equal(ours[name], array, err_msg=name)


def test_what_cannot_be_one_fleet_is_said(tmp_path: Path) -> None:
    other_rules = tiny("dqn", "minatar/breakout", "0", 2100, "env.sticky=0")
    for runs, said in (
        (RUNS + tiny("dqn", "minatar/breakout", "0", 7000), "the same number of steps, got"),
        (RUNS + other_rules, "the same rules of the environment, got"),
    ):
        with pytest.raises(BadSetting, match=said):
            train_fleet(runs, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_fleet_stops_after_a_length_of_time_only(seconds: float, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="stop_after must be a number of seconds from 0, got"):
        train_fleet(RUNS, tmp_path, stop_after=seconds)
    assert not list(tmp_path.iterdir())


def test_this_jax_knows_the_options_that_a_card_s_program_is_compiled_with() -> None:
    assert jax.jit(lambda x: x + 1, compiler_options=_CARD)(1.0) == 2
    with pytest.raises(Exception, match="side_by_side"):
        jax.jit(lambda x: x + 1, compiler_options={**_CARD, "xla_gpu_side_by_side": "1"})(1.0)


# One stream of a fleet is the same run alone

STRETCHES, STRETCH = 5, 40  # how often both are compared, and after how many steps from the same state


def distances(fleet: Fleet, alone: dict[int, CompiledStream]) -> dict[int, list[float]]:
    """Of those streams of a fleet, by their place in it: how far each is from itself alone, at first and later.

    After every stretch the one alone is put into the fleet's state: what rounding does in many steps of a system that
    enlarges it is no matter of the program. Infinite where episodes are not the same.
    """
    fleet.begin()
    state, apart = _saved(fleet), dict[int, list[float]]()
    for i, stream in alone.items():
        stream.begin()
        apart[i] = [_distance(state[i], stream.save()[0], everything=True)]
    for _ in range(STRETCHES):
        episodes, state = fleet.run(STRETCH).episodes(), _saved(fleet)
        for i, stream in alone.items():
            same = stream.run(STRETCH) == episodes[i]
            apart[i].append(_distance(state[i], stream.save()[0], everything=True) if same else np.inf)
            stream.restore(state[i], {})
    return apart


def assert_like_alone(variant: str, games: str, compared: str, *settings: str, kinks: int = 1) -> None:
    """Equal to float32 rounding (2e-7 where it was tried), but for so many stretches in which a unit comes within it of
    the kink of its LeakyReLU: the gradient jumps there, on one side and not on the other. Where that happens depends
    on the machine's instructions; with SPR, which has thousands of units in every step of a network of full size, it
    happens every few hundred steps.
    """
    runs = sorted(grid(variant, games, seeds=[0], steps=1e6, settings=settings), key=lambda run: run.env.name)
    envs = [run.env.compiled() for run in runs]
    fleet = Fleet([run.agent for run in runs], envs, [0] * len(runs), 1_000_000)
    alone = {
        i: CompiledStream(run.agent, envs[i], seed=0, steps=1_000_000)
        for i, run in enumerate(runs)
        if run.env.name in compared
    }
    for i, apart in distances(fleet, alone).items():
        print(f"{runs[i].name}: apart by", *(f"{one:.1e}" for one in apart))
        assert apart[0] < 1e-6, runs[i].name
        assert sorted(apart)[-1 - kinks] < 1e-5, runs[i].name


def _saved(fleet: Fleet) -> list[dict[str, np.ndarray]]:
    return [arrays for arrays, _ in fleet.save()]


def _distance(a: dict[str, np.ndarray], b: dict[str, np.ndarray], everything: bool = False) -> float:
    """The largest difference between two parameters, or of all that is learnt: also traces, history and normalisers.

    A fleet begins its sums for the log anew where a single run has them still.
    """
    assert {name: array.shape for name, array in a.items()} == {name: array.shape for name, array in b.items()}
    below, but = ("stream/", "stream/tally/") if everything else ("stream/agent/params/", "-")
    kept = [name for name in a if name.startswith(below) and not name.startswith(but) and a[name].size]
    sizes = {name: max(1.0, float(np.abs(b[name]).max())) for name in kept if a[name].dtype == np.float32}
    return max(float(np.abs(a[name] - b[name]).max()) / size for name, size in sizes.items())


@pytest.mark.usefixtures("programs")
def test_a_stream_of_a_fleet_is_the_same_run_alone() -> None:
    """Breakout, in a fleet with room for Freeway's seven channels."""
    small = ("aux.objective.horizon=2", TINY)
    assert_like_alone("qrc+spr+orth", "minatar/breakout,minatar/freeway", "minatar/breakout", *small)


@pytest.mark.usefixtures("programs")
def test_streams_with_numbers_of_their_own_are_the_same_runs_alone() -> None:
    """One structure, one seed, one game: what one stream has that the others have not is its numbers."""
    numbers = ("td.lr=0.1|1", "aux.weight=0.1|2")
    runs = tiny("strq+spr", "minatar/breakout", "0", 100_000, "aux.objective.horizon=2", *numbers)
    assert len({run.agent for run in runs}) == len(runs) == 4
    envs = [run.env.compiled() for run in runs]
    fleet = Fleet([run.agent for run in runs], envs, [0] * 4, 100_000)
    alone = [CompiledStream(run.agent, env, seed=0, steps=100_000) for run, env in zip(runs, envs, strict=True)]
    apart = max(sorted(found)[-2] for found in distances(fleet, dict(enumerate(alone))).values())  # one kink each
    arrays = _saved(fleet)
    others = min(_distance(arrays[i], arrays[j]) for i in range(4) for j in range(i))
    print(f"apart by {apart:.1e}, from one another by {others:.1e}")
    assert apart < 5e-6
    assert others > 5e-5


@pytest.mark.long
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("variant", ["dqn", "strq", "qrc", "qrc+spr+orth", "strq+spr+orth2"])
def test_five_games_in_one_fleet_are_the_same_five_runs_alone(variant: str) -> None:
    games = "minatar/asterix,minatar/breakout,minatar/freeway,minatar/seaquest,minatar/space_invaders"
    assert_like_alone(variant, games, games, kinks=2 if "spr" in variant else 1)


@pytest.mark.long
def test_ctrl_c_saves_the_whole_fleet(command: Command, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    words = tiny_words(*GRID, out, *HOW)
    hold = held(out, 500, RUNS[-1].name)
    process = command.start(*words)
    wait_until(lambda: newest(out / RUNS[-1].name) >= 500, process)
    process.send_signal(signal.SIGINT)
    hold.unlink()
    process.communicate(timeout=240)
    assert process.returncode == 130
    assert len({newest(out / run.name) for run in RUNS}) == 1
    assert {RunFolder.read(out / run.name).status for run in RUNS} == {"interrupted"}
    assert command(*words).returncode == 0
    assert_undisturbed(out, undisturbed)
