"""A run as a value: (agent, environment, seed, steps) and what computes it. Its folder is named by it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.agents import Agent, agent_named, agent_of, name_of, nearest_name
from headrace.engines.base import Backend, HostStream, Stream
from headrace.envs.base import EnvSpec
from headrace.envs.registry import Environment, EnvLike, environment_given, environment_of
from headrace.errors import BadSetting, HeadraceError
from headrace.part import differences, number_of, to_json, tweak
from headrace.runs.manifest import identity_hash, require_run
from headrace.training.engine_choice import choose, require_engine

# Of each engine, raised whenever the same run would give other numbers: no old run is continued by new arithmetic.
NUMERICS = {"reference": 4, "learner": 1}


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
