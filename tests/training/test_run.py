"""A run as a value: its name, its identity, and the way back."""

from __future__ import annotations

import json

import pytest

from headrace.agents import VARIANTS, agent_named
from headrace.errors import BadSetting, UnknownName
from headrace.training.run import Run, make_run, run_of, whole

GAME = "minatar/breakout"


def test_the_words_of_the_command_line() -> None:
    run = make_run("qrc+spr+orth", GAME, seed=3, steps=5e6, settings=["aux.objective.horizon=3", "env.sticky=0"])
    assert run.steps == 5_000_000
    assert isinstance(run.steps, int)
    assert run.identity()["agent"]["aux"]["objective"]["horizon"] == 3
    assert run.identity()["env"]["rules"]["sticky"] == 0
    assert (run.engine, run.form) == ("learner", "host")


@pytest.mark.parametrize("name", VARIANTS)
def test_a_manifest_holds_the_whole_run(name: str) -> None:
    run = make_run(name, GAME, seed=9, steps=1e5, settings=["env.sticky=0.3", "explore.end=0.05"], form="host")
    assert run_of(json.loads(json.dumps(run.identity()))) == run


def changed(**changes: object) -> Run:
    words: dict = {"agent": "qrc+spr+orth", "env": GAME, "seed": 0, "steps": 1e5, **changes}
    return make_run(words.pop("agent"), words.pop("env"), **words)


def test_every_different_run_has_a_folder_of_its_own() -> None:
    runs = [
        changed(),
        changed(agent="qrc"),
        changed(env="minatar/asterix"),
        changed(seed=1),
        changed(steps=2e5),
        changed(engine="reference"),
        changed(engine="reference", form="host"),
        changed(settings=["td.lr=2e-4"]),
        changed(settings=["td.lr=2.0001e-4"]),
        changed(settings=["env.sticky=0.2"]),
    ]
    assert len({run.name for run in runs}) == len(runs)
    assert changed().name == changed(agent=agent_named("qrc+spr+orth")).name


def test_a_name_is_readable_and_safe_as_a_folder() -> None:
    name = make_run("qrc+spr+orth", GAME, steps=2.5e6, settings=["td.lr=2e-4"]).name
    assert name.startswith("qrc+spr+orth-td.lr=0.0002_minatar-breakout_seed0_2.5M_")
    assert not set(name) & set("/\\*?: ")
    assert "_1234_" in make_run("dqn", GAME, steps=1234).name
    assert "_1k_" in make_run("dqn", GAME, steps=1000).name


@pytest.mark.parametrize("bad", [-1, 0.5, float("nan"), float("inf"), -float("inf"), 2**31])
def test_a_seed_is_a_whole_number(bad: float) -> None:
    with pytest.raises(BadSetting, match=r"seed must be a whole number from 0 to 2,147,483,647, got"):
        changed(seed=bad)


@pytest.mark.parametrize("bad", [0, -5, 1e12, 2.5, float("nan")])
def test_so_are_the_steps(bad: float) -> None:
    with pytest.raises(BadSetting, match=r"steps must be a whole number from 1 to .*, got"):
        make_run("qrc", GAME, steps=bad)


def test_a_whole_number_may_be_written_as_a_float() -> None:
    assert whole("steps", 5e6, 1) == 5_000_000


def test_unknown_words_are_answered_with_the_nearest() -> None:
    for words, message in (
        ({"agent": "qrc+spr+ort"}, "unknown variant 'qrc+spr+ort'; did you mean 'qrc+spr+orth'"),
        ({"form": "hots"}, "unknown form 'hots'; did you mean 'host'"),
        ({"engine": "referense"}, "unknown engine 'referense'; did you mean 'reference'"),
        ({"settings": ["td.lrr=1"]}, "'lrr'; did you mean 'lr'"),
        ({"settings": ["env.stiky=1"]}, "'stiky'; did you mean 'sticky'"),
    ):
        with pytest.raises(UnknownName) as caught:
            changed(**words)
        assert message in str(caught.value)


def test_settings_out_of_range_name_the_value() -> None:
    for setting, value in (("td.lr=-1", "-1"), ("aux.objective.horizon=0", "0"), ("env.sticky=2", "2")):
        with pytest.raises(BadSetting, match=f"got {value}"):
            changed(settings=[setting])
