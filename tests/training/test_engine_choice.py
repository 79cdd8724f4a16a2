"""Which engine and which form a run gets, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.agents import VARIANTS, Agent, agent_named
from headrace.envs import registry
from headrace.envs.registry import Environment, environment
from headrace.errors import BadSetting, UnknownName
from headrace.sweep.status import resolved
from headrace.training import run as choice
from headrace.training.run import EngineChoice, choose, make_run

GAME = environment("minatar/breakout")
QRC = VARIANTS["qrc"]


@pytest.fixture(autouse=True)
def _no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)


def missing(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """These packages cannot be found."""
    for module in (choice, registry):
        found = module.find_spec
        monkeypatch.setattr(module, "find_spec", lambda name, found=found: None if name in packages else found(name))
    choice._host_spec.cache_clear()


@pytest.mark.parametrize("variant", VARIANTS)
def test_left_open_it_is_the_fast_engine_and_the_original_game(variant: str) -> None:
    assert choose(agent_named(variant), GAME) == EngineChoice("learner", "host")
    assert choose(agent_named(variant), GAME, form="host") == EngineChoice("learner", "host")


def test_the_reference_engine_has_the_compiled_game_and_the_original_one() -> None:
    assert choose(QRC, GAME, "reference") == EngineChoice("reference", "compiled")
    assert choose(QRC, GAME, "reference", "compiled") == EngineChoice("reference", "compiled")
    assert choose(QRC, GAME, "reference", "host") == EngineChoice("reference", "host")


def test_what_is_missing_is_said_and_the_reference_engine_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "ale_py")
    chosen = choose(QRC, environment("atari/pong"))
    assert chosen[:2] == ("reference", "host")
    why = "atari/pong on the host needs the ale_py package: pip install 'headrace[atari]'"
    assert chosen.notice.startswith(f"the reference engine is used, because {why}")


def test_without_a_compiled_learner_the_definition_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "library_path", lambda: None)
    chosen = choose(QRC, GAME)
    assert chosen[:2] == ("reference", "compiled")
    assert chosen.notice.startswith("the reference engine is used, because the learner was not compiled")
    assert "\n" not in chosen.notice
    with pytest.raises(BadSetting, match="the learner cannot be used: "):
        choose(QRC, GAME, "learner")


def test_an_agent_that_the_fast_engine_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose(agent_named("qrc+curl"), GAME)
    assert chosen[:2] == ("reference", "compiled")
    assert "the learner cannot compute this agent: it does not know Curl" in chosen.notice
    with pytest.raises(BadSetting, match="the learner cannot compute this agent: it does not know Curl"):
        choose(agent_named("qrc+curl"), GAME, "learner")
    assert choose(agent_named("qrc+curl"), GAME, "reference", "host") == EngineChoice("reference", "host")


def test_the_compiled_form_is_the_reference_engines() -> None:
    chosen = choose(QRC, GAME, form="compiled")
    assert chosen[:2] == ("reference", "compiled")
    assert "the compiled form is asked for" in chosen.notice
    with pytest.raises(BadSetting, match="the learner steps environments of the host"):
        choose(QRC, GAME, "learner", "compiled")


def test_an_accelerator_that_is_asked_for_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    chosen = choose(QRC, GAME)
    assert chosen[:2] == ("reference", "compiled")
    assert "JAX_PLATFORMS asks for cuda" in chosen.notice
    assert choose(QRC, GAME, "learner") == EngineChoice("learner", "host")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    assert choose(QRC, GAME) == EngineChoice("learner", "host")


@pytest.mark.parametrize(("engine", "form"), [("lerner", "auto"), ("auto", "hots"), ("reference", "compild")])
def test_other_words_are_unknown(engine: str, form: str) -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        choose(QRC, GAME, engine, form)


# Where a run is trained decides what was left open


def words(**more: Any) -> dict[str, Any]:
    return {"seed": 0, "steps": 1000, **more}


def test_a_fleet_takes_what_was_left_open_as_its_own() -> None:
    left_open = make_run("qrc", GAME, **words())
    assert (left_open.engine, left_open.form) == ("learner", "host")
    (in_fleet,) = resolved([left_open, left_open], "fleet", "nowhere")
    assert in_fleet == make_run("qrc", GAME, **words(engine="reference"))
    assert resolved([left_open, left_open], "local", "nowhere") == [left_open]


@pytest.mark.parametrize("given", [{"engine": "learner"}, {"form": "host"}])
def test_what_was_asked_for_stays(given: dict[str, str]) -> None:
    run = make_run("qrc", GAME, **words(**given))
    assert resolved([run], "fleet", "nowhere") == [run]


def test_every_engine_has_a_folder_of_its_own() -> None:
    engines = ({"engine": "learner"}, {"engine": "reference"}, {"engine": "reference", "form": "host"})
    assert len({make_run("qrc", GAME, **words(**given)).name for given in engines}) == 3


def test_how_a_choice_came_about_is_no_part_of_a_run() -> None:
    assert make_run("qrc", GAME, **words()) == make_run("qrc", GAME, **words(engine="learner"))
    assert Environment.__hash__(GAME) == hash(GAME)
    assert isinstance(make_run("qrc", GAME, **words()).agent, Agent)
