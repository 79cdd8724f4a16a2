"""A stream that a run can drive: take some steps, report, save."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.envs.base import HostEnv, TimeStep
from headrace.errors import EnvironmentFault, HeadraceError, raised


class Episode(NamedTuple):
    """A finished episode."""

    step: int  # steps of the run when it ended
    episode_return: float  # raw, undiscounted
    length: int


class Engine(Protocol):
    """An agent on one stream, whatever computes it."""

    @property
    def step(self) -> int: ...
    @property
    def action(self) -> int: ...
    def begin(self, obs: np.ndarray) -> None: ...
    def restart(self, obs: np.ndarray) -> None: ...
    def learn(self, timestep: TimeStep) -> Episode | None: ...
    def report(self) -> dict[str, float]: ...
    def trouble(self) -> tuple[str, int] | None: ...
    def save(self) -> dict[str, np.ndarray]: ...
    def restore(self, arrays: dict[str, np.ndarray]) -> None: ...


class Stream(Protocol):
    """What a run drives."""

    @property
    def step(self) -> int: ...
    def begin(self) -> None: ...
    def run(self, n: int) -> list[Episode]:
        """Takes n steps; fewer where the environment fails after some, and then the next call raises the fault."""

    def report(self) -> dict[str, float]: ...
    def trouble(self) -> tuple[str, int] | None: ...
    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]: ...
    def restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> str:
        """Makes the stream what it was; where a new episode had to be begun for it, says why."""


class HostStream:
    """An engine and an environment of the host, taking turns.

    Once the environment has failed the stream stands still at the last good step, and can be saved without it.
    """

    def __init__(self, engine: Engine, env: HostEnv, seed: int) -> None:
        self.engine, self.env, self.seed = engine, env, seed
        self._fault: EnvironmentFault | None = None

    @property
    def step(self) -> int:
        return self.engine.step

    def begin(self) -> None:
        self.engine.begin(begun(self.env, self.seed))

    def run(self, n: int) -> list[Episode]:
        if self._fault is not None:
            raise self._fault
        begun_at, ended = self.step, list[Episode]()
        try:
            for _ in range(n):
                if (episode := self.engine.learn(stepped(self.env, self.engine.action, self.step + 1))) is not None:
                    ended.append(episode)
        except EnvironmentFault as fault:
            self._fault = fault
            if self.step == begun_at:
                raise
        return ended

    def report(self) -> dict[str, float]:
        return self.engine.report()

    def trouble(self) -> tuple[str, int] | None:
        return self.engine.trouble()

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if self._fault is not None:
            return self.engine.save(), {"env": None, "fault": str(self._fault)}
        return self.engine.save(), {"env": self.env.save()}

    def restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> str:
        self.engine.restore(arrays)
        if state["env"] is None:  # begun with a seed of its own, or each resumption would play the first episode again
            self.engine.restart(begun(self.env, (self.seed + self.step) % 2**31))
            return f"{self.env.spec.name} {'failed' if 'fault' in state else 'cannot be saved'}"
        begun(self.env, self.seed)
        self.env.restore(state["env"])
        return ""


def begun(env: HostEnv, seed: int) -> np.ndarray:
    """The first observation of a host environment; what it raises is a fault of its own."""
    try:
        return env.reset(seed)
    except (HeadraceError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _fault(env, " when it was reset", error) from error


def stepped(env: HostEnv, action: int, step: int) -> TimeStep:
    """What an action leads to; what the environment raises at this step is a fault of its own."""
    try:
        return env.step(action)
    except (HeadraceError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: an environment ends its run, not the program
        raise _fault(env, f" at step {step:,}", error) from error


def _fault(env: HostEnv, when: str, error: BaseException) -> EnvironmentFault:
    return EnvironmentFault(f"{env.spec.name} raised {raised(error, when)}")
