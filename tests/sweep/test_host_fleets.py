"""Fleets whose environments run on the host: each stream is the run alone, in its ordinary folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.engines.jax.host_fleet import HostFleet
from headrace.runs.folder import RunFolder
from headrace.sweep import grid
from headrace.sweep.status import resolved
from headrace.training.fleet import train_fleet
from headrace.training.pool import Pool
from headrace.training.run import Run
from tests.small_runs import Command, StopAt
from tests.sweep.support import held, kill, newest, results, wait_until, workers_of

gymnasium = pytest.importorskip("gymnasium")

SMALL = ["network=Mlp((8,),8)"]
STEPS = 60
POLE = "gym/CartPole-v1"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    plan = grid("strq", POLE, seeds="0:2", steps=STEPS, settings=SMALL)
    return resolved(plan, "fleet", tmp_path_factory.mktemp("none"))


def test_a_run_that_was_left_open_takes_the_form_that_its_environment_has(runs: list[Run]) -> None:
    assert {(run.engine, run.form) for run in runs} == {("reference", "host")}


def assert_near(arrays: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert arrays.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(arrays[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def fleet_of(runs: list[Run]) -> HostFleet:
    return HostFleet([r.agent for r in runs], Pool([r.env for r in runs]), [r.seed for r in runs], runs[0].steps)


def test_a_stream_of_a_host_fleet_is_the_run_alone_and_is_restored_exactly(runs: list[Run]) -> None:
    fleet = fleet_of(runs)
    try:
        fleet.begin()
        first = fleet.run(30).episodes()
        saved = fleet.save()
        for run, (arrays, state), episodes in zip(runs, saved, first, strict=True):
            alone = run.stream()
            alone.begin()
            assert alone.run(30) == episodes
            wanted, wanted_state = alone.save()
            assert state == wanted_state
            assert_near(arrays, wanted)
        then, after = fleet.run(20).episodes(), fleet.save()
        fleet.restore(saved)
        assert fleet.run(20).episodes() == then
        for (arrays, state), (again, state_again) in zip(after, fleet.save(), strict=True):
            assert state == state_again
            for name, array in arrays.items():
                np.testing.assert_array_equal(again[name], array, err_msg=name)
    finally:
        fleet.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("variant", "envs", "settings"),
    [("qrc+spr+orth", "gym/CartPole-v1", SMALL), ("strq", "atari/breakout,atari/pong", [])],
)
def test_200_steps_of_a_host_fleet_are_those_of_the_runs_alone(variant: str, envs: str, settings: list[str]) -> None:
    """Actions are nearly all random at first: the same episodes, lives and saved games. Rounding adds up over free
    steps, so what is learnt is compared over one more step from the fleet's own state."""
    runs = grid(variant, envs, seeds="0", steps=1e6, settings=settings, engine="reference", form="host")
    fleet = fleet_of(runs)
    try:
        fleet.begin()
        episodes, saved = fleet.run(200).episodes(), fleet.save()
        fleet.run(1)
        after = fleet.save()
    finally:
        fleet.close()
    for run, (arrays, state), (then, then_state), found in zip(runs, saved, after, episodes, strict=True):
        alone = run.stream()
        alone.begin()
        assert alone.run(200) == found
        assert alone.save()[1] == state
        alone.restore(arrays, state)
        alone.run(1)
        assert alone.save()[1] == then_state
        assert_near(then, alone.save()[0])
    assert any(episodes)


def test_each_stream_has_its_ordinary_folder(tmp_path: Path) -> None:
    runs = resolved(grid("strq", POLE, seeds="0:2", steps=1000, settings=SMALL), "fleet", tmp_path / "none")
    result = train_fleet(runs, tmp_path)
    assert sorted(result.finished) == sorted(run.name for run in runs)
    for run in runs:
        folder = RunFolder.read(tmp_path / run.name)
        assert (folder.status, folder.identity) == ("finished", run.identity())
        assert 900 < folder.episodes()["length"].sum() <= 1000
        metrics = folder.metrics()
        assert metrics["step"].tolist() == [1000]
        assert np.isfinite([metrics[name][0] for name in ("return", "td_error", "dead_units")]).all()


class Breaking(gymnasium.Wrapper):
    """A pole that breaks at one step of the run with one seed, unless it was mended."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.steps, self.weak = 0, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.weak |= seed == BREAKS
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.weak and self.steps == 45 and not os.environ.get(MENDED):
            raise RuntimeError("snapped")
        return super().step(action)


BREAKS, MENDED = 1, "HEADRACE_TEST_MENDED"  # the seed; a variable of the environment


def breaking() -> Breaking:
    return Breaking()


def test_an_environment_that_raises_fails_its_own_run_which_goes_on_once_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = grid("strq", f"own/{__name__}.breaking", seeds="0:2", steps=STEPS, settings=SMALL)
    broken = resolved(plan, "fleet", tmp_path / "none")
    result = train_fleet(broken, tmp_path / "runs", checkpoint_every=20)
    name = broken[BREAKS].name
    assert sorted(result.finished) == sorted(run.name for run in broken if run.name != name)
    assert list(result.failed) == [name]
    assert "snapped" in result.failed[name]
    folder = RunFolder.read(tmp_path / "runs" / name)
    assert folder.status == "failed"
    assert "snapped" in folder.manifest["cause"]
    monkeypatch.setenv(MENDED, "1")
    assert train_fleet(broken, tmp_path / "runs").finished == [run.name for run in broken]
    train_fleet(broken, tmp_path / "whole")  # never broken
    for run in broken:
        ours, whole = (RunFolder.read(tmp_path / place / run.name) for place in ("runs", "whole"))
        assert ours.episodes()["return"].tolist() == whole.episodes()["return"].tolist()


def test_a_run_that_failed_far_behind_does_not_hold_back_its_fleet(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_fleet(runs[:1], tmp_path, checkpoint_every=20, stop_after=0.0)
    with RunFolder.open(tmp_path / runs[0].name, runs[0].identity(), {}) as folder:
        folder.set_status("failed", cause="it was cold")
    stopped = train_fleet(runs[1:], tmp_path, checkpoint_every=20, progress=StopAt(40))
    assert stopped.interrupted == [runs[1].name]
    notices = StopAt(STEPS + 1)
    result = train_fleet(runs, tmp_path, progress=notices)
    assert (sorted(result.finished), result.failed) == (sorted(run.name for run in runs), {})
    assert f"trained after the others: {runs[0].name}" in notices.notices
    assert any(said.startswith("continuing from step") for said in notices.notices)  # the other was sent nowhere


@pytest.mark.long
def test_a_killed_fleet_and_a_killed_worker_of_its_environments_lose_nothing(command: Command, tmp_path: Path) -> None:
    out, whole, plan = (
        tmp_path / "runs",
        tmp_path / "whole",
        grid("strq", POLE, seeds="0:2", steps=3000, settings=SMALL),
    )
    how = [
        "--seeds",
        "0:2",
        "--steps",
        "3000",
        "--set",
        SMALL[0],
        "--on",
        "fleet",
        "--checkpoint-every",
        "500",
        "--quiet",
    ]
    words = ["sweep", "strq", POLE, *how, "--out"]
    runs = resolved(plan, "fleet", tmp_path / "none")
    last = out / runs[-1].name
    held(out, 500, last.name)
    process = command.start(*words, str(out))
    wait_until(lambda: newest(last) >= 500, process)
    kill(workers_of(process)[0])  # the fleet
    hold = held(out, 1500, last.name)
    wait_until(lambda: newest(last) >= 1500, process)
    kill(next(pid for pid in children(workers_of(process)[0]) if "spawn_main" in words_of(pid)))
    hold.unlink()
    assert "died" in process.communicate()[1]
    again = command(*words, str(out))
    assert "2/2 done" in again.stdout, again.stderr
    command(*words, str(whole))
    assert results(out, runs) == results(whole, runs)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()
