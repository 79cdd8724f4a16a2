"""A run as a value: (agent, environment, seed, steps) and what computes it. Its folder is named by it.

The learner, in C, steps an environment of the host; the reference engine, which is the definition, takes both forms,
the compiled one where there is a choice. Left open, a run gets the learner wherever that can compute it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from headrace.agents import Agent, agent_named, agent_of, name_of, nearest_name
from headrace.engines.base import Backend, HostStream, Stream
from headrace.envs.base import EnvSpec
from headrace.envs.registry import FORMS, Environment, EnvLike, environment_given, environment_of
from headrace.errors import BadSetting, HeadraceError, unknown
from headrace.learner import NOT_COMPILED, library_path
from headrace.part import differences, number_of, to_json, tweak
from headrace.runs.manifest import identity_hash, require_run

ENGINES = ("learner", "reference")
# Of each engine, raised whenever the same run would give other numbers: no old run is continued by new arithmetic.
NUMERICS = {"reference": 4, "learner": 1}


class EngineChoice(NamedTuple):
    engine: str
    form: str
    notice: str = ""  # why it is not the learner, where that was left open


def choose(agent: Agent, env: Environment, engine: str = "auto", form: str = "auto") -> EngineChoice:
    """The engine and the form that these words stand for; an error where they do not go together."""
    _known("engine", engine, ENGINES)
    _known("form", form, FORMS)
    chosen, notice = ("reference", "") if engine == "reference" else _chosen(engine, _hindrance(agent, env, form))
    asked_for = env.forms[0] if form == "auto" else form
    return EngineChoice(chosen, "host" if chosen == "learner" else asked_for, notice)


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


def _hindrance(agent: Agent, env: Environment, form: str) -> str:
    """Why the learner cannot compute such a run; empty where it can."""
    if form == "compiled":
        return "the learner steps environments of the host and the compiled form is asked for"
    if missing := missing_for("learner"):
        return missing
    try:
        spec = _host_spec(env)
    except HeadraceError as error:
        if env.install and env.forms[0] == "compiled":  # which cannot be used either
            raise
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


@dataclass(frozen=True)
class Run:
    """A run as a value: equal runs have the same name, folder and result."""

    agent: Agent
    env: Environment
    seed: int
    steps: int
    engine: str = "reference"
    form: str = "compiled"  # of the environment
    open: bool = field(default=False, compare=False)  # engine and form were left open, and are what suits one stream
    notice: str = field(default="", compare=False)  # why it is not the C learner

    def identity(self) -> dict[str, Any]:
        return {
            "agent": to_json(self.agent),
            "env": {**self.env.identity(), "form": self.form},
            "seed": self.seed,
            "steps": self.steps,
            "engine": self.engine,
            "numerics": NUMERICS.get(self.engine, 0),  # 0: of an engine that there was
        }

    @property
    def name(self) -> str:
        """Readable at a glance, and different for every different run."""
        words = [_safe(name_of(self.agent)), _safe(self.env.label), f"seed{self.seed}", _short(self.steps)]
        return "_".join([*words, identity_hash(self.identity())[:8]])

    @property
    def command(self) -> str:
        """What trains it."""
        base = nearest_name(self.agent)
        settings = differences(self.agent, agent_named(base))
        settings += [f"env.{rule}" for rule in self.env.settings]
        words = [base, self.env.name, *(word for setting in settings for word in ("--set", setting))]
        return shlex.join(["headrace", "train", *words, "--seed", str(self.seed), "--steps", _short(self.steps)])

    def in_fleet(self) -> Run:
        """The run as a fleet takes it, where engine and form were left open: the environment in its usual form."""
        return replace(self, engine="reference", form=self.env.forms[0], notice="") if self.open else self

    def stream(self) -> Stream:
        """A stream that has not begun yet."""
        if self.form == "compiled":
            require_engine(self.engine, self.notice)
            from headrace.engines.jax.compiled import CompiledStream

            return CompiledStream(self.agent, self.env.compiled(), seed=self.seed, steps=self.steps)
        env = self.env.host()
        require_engine(self.engine, self.notice)
        if self.engine == "learner":
            from headrace.engines.learner.stream import learner_stream

            return learner_stream(self.agent, env, seed=self.seed, steps=self.steps)
        return HostStream(backend(self.engine, self.agent, env.spec, self.seed, self.steps), env, self.seed)


def backend(engine: str, agent: Agent, spec: EnvSpec, seed: int, steps: int) -> Backend:
    """The agent on one stream, as the engine of that name computes it."""
    if engine == "reference":
        from headrace.engines.jax.engine import ReferenceEngine

        return ReferenceEngine(agent, spec, seed=seed, steps=steps)
    from headrace.engines.learner.engine import LearnerEngine

    return LearnerEngine(agent, spec, seed=seed, steps=steps)


def _safe(label: str) -> str:
    """The label as part of a folder's name."""
    return re.sub(r"[^\w.+=-]", "", re.sub(r"[ /(]", "-", label))[:80]


def _short(steps: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if steps >= unit and steps * 10 % unit == 0:
            return f"{steps / unit:g}{letter}"
    return str(steps)


def make_run(
    agent: str | Agent,
    env: EnvLike,
    *,
    seed: int = 0,
    steps: float | str = 5_000_000,
    settings: Sequence[str] = (),
    engine: str = "auto",
    form: str = "auto",
) -> Run:
    """The run that these words stand for; settings beginning with `env.` change the environment's rules."""
    for_env = [s.removeprefix("env.") for s in settings if s.startswith("env.")]
    found = agent_named(agent) if isinstance(agent, str) else agent
    place = environment_given(env)
    tweaked = tweak(found, *(s for s in settings if not s.startswith("env.")))
    changed = replace(place, rules=tweak(place.rules, *for_env))
    seed, steps = whole("seed", seed, 0), whole("steps", steps, 1, 2**31 - 16)
    chosen = choose(tweaked, changed, engine, form)
    left_open = engine == form == "auto"
    return Run(tweaked, changed, seed, steps, chosen.engine, chosen.form, left_open, chosen.notice)


def whole(what: str, value: float | str, low: int, high: int = 2**31 - 1) -> int:
    """The number, which may be written as 20k, as an int; an error where it is no whole one from `low` to `high`."""
    try:
        value = number_of(value) if isinstance(value, str) else float(value)
    except (ValueError, TypeError):
        raise BadSetting(f"{what} must be a number such as 30, 20k or 5e6, got {value!r}") from None
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value or not low <= value <= high:
        shown = f"{value:.0f}" if abs(value) < 1e15 and value == int(value) else repr(value)
        raise BadSetting(f"{what} must be a whole number from {low:,} to {high:,}, got {shown}")
    return int(value)


def seconds(what: str, value: float) -> float:
    """The number; an error where it is no length of time."""
    if not 0 <= value < float("inf"):
        raise BadSetting(f"{what} must be a number of seconds from 0, got {value:g}")
    return value


def run_of(identity: dict[str, Any]) -> Run:
    """The run that a manifest's identity describes."""
    try:
        require_run(identity)
    except ValueError as error:
        raise HeadraceError(f"the manifest does not say which run this is: {error}") from error
    agent, env = agent_of(identity["agent"]), environment_of(identity["env"])
    engine, form = identity.get("engine", "unknown"), identity["env"]["form"]
    return Run(agent, env, identity["seed"], identity["steps"], engine, form)
