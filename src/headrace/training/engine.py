"""An agent in a loop of one's own, new or as a run left it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from headrace.agents import Agent, agent_named
from headrace.engines.base import Backend, EpisodeResult
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import BadSetting
from headrace.part import tweak
from headrace.policy import Policy
from headrace.training.evaluation import newest_checkpoint, require_learner, spec_of
from headrace.training.run import backend, engine_for, require_engine, run_of, whole


class Engine:
    """An agent that learns from one stream of experience, in a loop of one's own.

    It is computed by the C learner wherever that knows all of the agent's parts, else by the definition, with a
    warning that says why. Each transition is seen once.

    Args:
        agent: A name such as `qrc+spr`, or an agent.
        spec: What the agent sees and does; an environment has one as `env.spec`.
        engine: `learner`, `reference` or `auto`.
        seed: Of all random numbers.
        steps: The length of the run, over a fraction of which exploration falls.
        settings: Changes of the agent, such as `td.lr=1e-3`.

    Example:
        ```python
        env = headrace.make_env("minatar/breakout")
        engine = headrace.Engine("strq", env.spec, steps=1_000)
        engine.begin(env.reset(0))
        while engine.step < 1_000:
            episode = engine.learn(env.step(engine.action))
        ```
    """

    def __init__(
        self,
        agent: str | Agent,
        spec: EnvSpec,
        *,
        engine: str = "auto",
        seed: int = 0,
        steps: float | str = 5_000_000,
        settings: Sequence[str] = (),
    ) -> None:
        if not isinstance(spec, EnvSpec):
            raise BadSetting(f"spec must be an environment's, as headrace.make_env(NAME).spec, got {spec!r}")
        self.agent = tweak(agent_named(agent) if isinstance(agent, str) else agent, *settings)
        self.spec = spec
        self.name, notice = engine_for(self.agent, spec, engine)
        require_engine(self.name, notice)
        if notice:
            warnings.warn(notice, stacklevel=2)
        seed, length = whole("seed", seed, 0), whole("steps", steps, 1)
        self._backend: Backend = backend(self.name, self.agent, spec, seed, length)
        self._begun = False

    @property
    def step(self) -> int:
        """Transitions learnt from so far."""
        return self._backend.step if self._begun else 0

    @property
    def action(self) -> Any:
        """The number of the action to take now; in a box its numbers, of which those beyond [-1, 1] count as 1."""
        return self._backend.action

    def begin(self, obs: Any) -> None:
        """Begins an episode with the environment's observation: the first one, or another where the present one cannot
        go on. After a step that ended an episode nothing is to be called: `TimeStep.obs` is the next one's first."""
        (self._backend.restart if self._begun else self._backend.begin)(obs)
        self._begun = True

    def learn(self, timestep: TimeStep) -> EpisodeResult | None:
        """Learns from what `action` led to, and chooses the next one; returns the episode if it ended there."""
        return self._backend.learn(timestep)

    def report(self) -> dict[str, float]:
        """Means of the metrics over the steps since the last report."""
        return self._backend.report()

    def trouble(self) -> tuple[str, int] | None:
        """The first quantity that was not finite and the step it happened at, if any."""
        return self._backend.trouble()

    def save(self) -> dict[str, np.ndarray]:
        """Everything that the agent knows, as named arrays."""
        return self._backend.save()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Makes the agent what it was when these were saved."""
        self._backend.restore(arrays)
        self._begun = True

    def policy(self, *, epsilon: float = 0.0, seed: int = 0) -> Policy:
        """The agent as it is now, frozen."""
        return Policy(self.agent, self.save(), eps=epsilon, seed=seed)


@overload
def load(path: str | Path, *, epsilon: float = ..., seed: int = ...) -> Policy: ...
@overload
def load(path: str | Path, *, learning: Literal[True], engine: str = ...) -> Engine: ...
def load(
    path: str | Path, *, learning: bool = False, engine: str = "auto", epsilon: float = 0.0, seed: int = 0
) -> Policy | Engine:
    """A run's agent, as its newest good checkpoint has it.

    Args:
        path: The run's folder.
        learning: Whether to go on learning. If not, parameters and normaliser are frozen.
        engine: What computes an agent that goes on learning; the state fits each engine.
        epsilon: The probability with which a frozen agent takes a random action.
        seed: Of a frozen agent's random actions.

    Returns:
        A `Policy`, which needs NumPy alone: `policy(obs)` is an action, `policy.q(obs)` are the values. With
            `learning=True` an `Engine`: call `begin` with the observation to go on from, then `action` and `learn`.

    Example:
        ```python
        policy = headrace.load("runs/NAME")
        env = headrace.make_env("minatar/breakout")
        step = env.step(policy(env.reset(0)))
        ```
    """
    folder, checkpoint = newest_checkpoint(path)
    run = run_of(folder.identity)
    if not learning:
        return Policy(run.agent, checkpoint.arrays, eps=epsilon, seed=seed)
    require_learner(run, checkpoint.arrays)
    spec = spec_of(run, checkpoint.arrays)
    found = Engine(run.agent, spec, engine=engine, seed=run.seed, steps=run.steps)
    found.restore(checkpoint.arrays)
    return found
