"""Which engine computes a run, and in which form its environment runs.

The learner, in C, steps an environment of the host; the reference engine, which is the definition, takes both forms,
the compiled one where there is a choice. Left open, a run gets the learner wherever that can compute it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from headrace.agents import Agent
from headrace.envs.base import EnvSpec
from headrace.envs.registry import FORMS, Environment
from headrace.errors import BadSetting, HeadraceError, unknown
from headrace.learner import NOT_COMPILED, library_path

ENGINES = ("learner", "reference")


class EngineChoice(NamedTuple):
    engine: str
    form: str
    notice: str = ""  # why it is not the learner, where that was left open


def choose(agent: Agent, env: Environment, engine: str = "auto", form: str = "auto") -> EngineChoice:
    """The engine and the form that these words stand for; an error where they do not go together."""
    _known("engine", engine, ENGINES)
    _known("form", form, FORMS)
    chosen, notice = ("reference", "") if engine == "reference" else _chosen(engine, _hindrance(agent, env, form))
    return EngineChoice(chosen, "host" if chosen == "learner" else _form(env, form), notice)


def engine_for(agent: Agent, spec: EnvSpec, engine: str = "auto") -> tuple[str, str]:
    """The engine that the word stands for, for an agent that is stepped from Python; and why it is not the learner."""
    _known("engine", engine, ENGINES)
    if engine == "reference":
        return "reference", ""
    return _chosen(engine, missing_for("learner") or _unable(agent, spec))


def _chosen(engine: str, hindrance: str) -> tuple[str, str]:
    """The learner, unless something hinders it or an accelerator is asked for; and which of these."""
    if engine == "learner" and hindrance:
        raise BadSetting(f"the learner cannot be used: {hindrance}")
    against = hindrance or (_accelerator_asked_for() if engine == "auto" else "")
    return ("reference", f"the reference engine is used, because {against}") if against else ("learner", "")


def missing_for(engine: str) -> str:
    """What has to be installed before the engine can be used; empty where nothing has."""
    if engine == "reference":
        return "" if find_spec("jax") else "the reference engine needs jax: pip install 'headrace[jax]'"
    return "" if library_path() else f"the learner {NOT_COMPILED}"


def require_engine(engine: str, notice: str = "") -> None:
    """An error where the engine cannot be used here; `notice` says why it was chosen."""
    if missing := missing_for(engine):
        raise HeadraceError(f"{notice}; {missing}" if notice else missing)


def _form(env: Environment, form: str) -> str:
    """The form that the reference engine takes: the environment's first, unless one is asked for."""
    return env.forms[0] if form == "auto" else form


def _hindrance(agent: Agent, env: Environment, form: str) -> str:
    """Why the learner cannot compute such a run; empty where it can."""
    if form == "compiled":
        return "the learner steps environments of the host and the compiled form is asked for"
    if missing := missing_for("learner"):
        return missing
    try:
        spec = _host_spec(env)
    except HeadraceError as error:
        return str(error)
    return _unable(agent, spec)


def _unable(agent: Agent, spec: EnvSpec) -> str:
    """What the learner lacks for the agent; empty where that is nothing."""
    from headrace.engines.learner.engine import supports

    with suppress(BadSetting):  # a network that does not fit at all: whoever makes the stream will say so
        if reason := supports(agent, spec.observation_shape):
            return f"the learner cannot compute this agent: {reason}"
    return ""


def _accelerator_asked_for() -> str:
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if not platforms or "cpu" in platforms.split(","):
        return ""
    return f"JAX_PLATFORMS asks for {platforms} and the learner runs on the CPU"


@cache
def _host_spec(env: Environment) -> EnvSpec:
    return env.host().spec


def _known(what: str, value: str, known: tuple[str, ...]) -> None:
    if value != "auto" and value not in known:
        raise unknown(what, value, (*known, "auto"))
