"""Fleets whose environments run on the host: each stream is the run alone, in its ordinary folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.engines.jax.host_fleet import HostFleet
from headrace.runs.folder import RunFolder
from headrace.sweep import grid
from headrace.sweep.resolve import resolved
from headrace.training.fleet import train_fleet
from headrace.training.pool import Pool
from headrace.training.run import Run

pytest.importorskip("gymnasium")

SMALL = ["network=Mlp((8,),8)"]
STEPS = 60


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    plan = grid("strq", "gym/CartPole-v1", seeds="0:2", steps=STEPS, settings=SMALL)
    return resolved(plan, "fleet", tmp_path_factory.mktemp("none"))


def test_a_run_that_was_left_open_takes_the_form_that_its_environment_has(runs: list[Run]) -> None:
    assert {(run.engine, run.form) for run in runs} == {("reference", "host")}


def test_a_stream_of_a_host_fleet_is_the_run_alone_and_is_restored_exactly(runs: list[Run]) -> None:
    fleet = HostFleet([r.agent for r in runs], Pool([r.env for r in runs]), [r.seed for r in runs], STEPS)
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
            assert arrays.keys() == wanted.keys()
            for name, array in wanted.items():
                np.testing.assert_allclose(arrays[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
        then, after = fleet.run(20).episodes(), fleet.save()
        fleet.restore(saved)
        assert fleet.run(20).episodes() == then
        for (arrays, state), (again, state_again) in zip(after, fleet.save(), strict=True):
            assert state == state_again
            for name, array in arrays.items():
                np.testing.assert_array_equal(again[name], array, err_msg=name)
    finally:
        fleet.close()


def test_each_stream_has_its_ordinary_folder(runs: list[Run], tmp_path: Path) -> None:
    result = train_fleet(runs, tmp_path)
    assert sorted(result.finished) == sorted(run.name for run in runs)
    for run in runs:
        folder = RunFolder.read(tmp_path / run.name)
        assert (folder.status, folder.identity) == ("finished", run.identity())
        assert folder.episodes()["length"].sum() <= STEPS
