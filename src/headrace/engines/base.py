"""A stream that training can drive, alone or with others: take some steps, report, save."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.envs.base import EnvSpec, HostEnv, TimeStep
from headrace.errors import EnvironmentFault, HeadraceError, raised


class EpisodeResult(NamedTuple):
    """A finished episode."""

    step: int  # steps of the run when it ended
    episode_return: float  # raw, undiscounted
    length: int


class Backend(Protocol):
    """What computes an agent on one stream."""

    @property
    def step(self) -> int: ...
    @property
    def action(self) -> Any: ...
    def begin(self, obs: np.ndarray) -> None: ...
    def restart(self, obs: np.ndarray) -> None: ...
    def learn(self, timestep: TimeStep) -> EpisodeResult | None: ...
    def report(self) -> dict[str, float]: ...
    def trouble(self) -> tuple[str, int] | None: ...
    def save(self) -> dict[str, np.ndarray]: ...
    def arrays(self) -> dict[str, np.ndarray]:
        """As `save`, but only until the next step: the engine may go on in them."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None: ...


class Stream(Protocol):
    """What a run drives."""

    @property
    def step(self) -> int: ...
    def begin(self) -> None: ...
    def run(self, n: int) -> list[EpisodeResult]:
        """Takes n steps; fewer where the environment fails after some, and then the next call raises the fault."""

    def report(self) -> dict[str, float]: ...
    def trouble(self) -> tuple[str, int] | None: ...
    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]: ...
    def restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> str:
        """Makes the stream what it was; where a new episode had to be begun for it, says why."""


Saved = tuple[dict[str, np.ndarray], dict[str, Any]]  # a stream's arrays, and what its environment saved beside them


class Block(Protocol):
    """What some steps of all streams left, stream by stream."""

    @property
    def end(self) -> int: ...
    def episodes(self) -> list[list[EpisodeResult]]: ...
    def means(self) -> list[dict[str, float]]:
        """Means of what was measured since the last log point; asked for at log points only."""

    def trouble(self) -> dict[int, tuple[str, int]]:
        """The streams in which a quantity was not finite: which one, and at which step."""


class Streams(Protocol):
    """What the training loop drives: streams that advance together, a row each."""

    lockstep: bool  # one program for all: takes blocks as they are given, runs on while the host writes

    @property
    def faults(self) -> Mapping[int, HeadraceError]:
        """The streams whose environment has failed while the others go on, and what it raised."""

    @property
    def step(self) -> int: ...
    def begin(self) -> None: ...
    def run(self, n: int) -> Block: ...
    def save(self) -> list[Saved]: ...
    def restore(self, saved: Sequence[Saved]) -> list[str]:
        """Makes the streams what they were; for each in which a new episode had to be begun, says why."""

    def close(self) -> None: ...


class Alone:
    """One stream, as the training loop drives it."""

    lockstep = False
    faults: Mapping[int, HeadraceError] = {}

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def step(self) -> int:
        return self.stream.step

    def begin(self) -> None:
        self.stream.begin()

    def run(self, n: int) -> Block:
        return AloneBlock(self.stream, self.stream.run(n))

    def save(self) -> list[Saved]:
        return [self.stream.save()]

    def restore(self, saved: Sequence[Saved]) -> list[str]:
        return [self.stream.restore(*saved[0])]

    def close(self) -> None: ...


class AloneBlock:
    """What one stream left. It is read before the stream goes on."""

    def __init__(self, stream: Stream, episodes: list[EpisodeResult]) -> None:
        self._stream, self._episodes, self.end = stream, episodes, stream.step

    def episodes(self) -> list[list[EpisodeResult]]:
        return [self._episodes]

    def means(self) -> list[dict[str, float]]:
        return [self._stream.report()]

    def trouble(self) -> dict[int, tuple[str, int]]:
        found = self._stream.trouble()
        return {0: found} if found else {}


class HostStream:
    """An engine and an environment of the host, taking turns.

    Once the environment has failed the stream stands still at the last good step, and can be saved without it.
    """

    def __init__(self, engine: Backend, env: HostEnv, seed: int) -> None:
        self.engine, self.env, self.seed = engine, env, seed
        self._fault: EnvironmentFault | None = None
        self._process = os.getpid()

    @property
    def step(self) -> int:
        return self.engine.step

    def begin(self) -> None:
        self.engine.begin(begun(self.env, self.seed))

    def run(self, n: int) -> list[EpisodeResult]:
        if self._fault is not None:
            raise self._fault
        begun_at, ended = self.step, list[EpisodeResult]()
        try:
            for _ in range(n):
                if (episode := self.engine.learn(stepped(self.env, self.engine.action, self.step + 1))) is not None:
                    ended.append(episode)
        except EnvironmentFault as fault:
            end_forked(self._process, fault.__cause__)
            self._fault = fault
            if self.step == begun_at:
                raise
        end_forked(self._process)
        return ended

    def report(self) -> dict[str, float]:
        return self.engine.report()

    def trouble(self) -> tuple[str, int] | None:
        return self.engine.trouble()

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What stands until the next step. Where the environment cannot be saved, what is saved next is without it."""
        if self._fault is not None:
            return self.engine.arrays(), {"env": None, "fault": str(self._fault)}
        try:
            state = saved(self.env)
        except EnvironmentFault as fault:
            self._fault = fault
            raise
        return self.engine.arrays(), {"env": state}

    def restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> str:
        self.engine.restore(arrays)
        if state["env"] is None:  # begun with a seed of its own, or each resumption would play the first episode again
            self.engine.restart(begun(self.env, (self.seed + self.step) % 2**31))
            return broken_off(self.env.spec, state)
        begun(self.env, self.seed)
        restored(self.env, state["env"])
        return ""


def broken_off(spec: EnvSpec, state: dict[str, Any]) -> str:
    """Why an episode could not be saved with its stream; empty where it was."""
    if state["env"] is not None:
        return ""
    return f"{spec.name} {'failed' if 'fault' in state else 'cannot be saved'}"


def begun(env: HostEnv, seed: int) -> np.ndarray:
    """The first observation of a host environment; what it raises is a fault of its own."""
    return _asked(env, "when it was reset", lambda: env.reset(seed))


def stepped(env: HostEnv, action: Any, step: int) -> TimeStep:
    """What an action leads to; what the environment raises at this step is a fault of its own."""
    try:
        return env.step(action)
    except (HeadraceError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: an environment ends its run, not the program
        raise _fault(env, f"at step {step:,}", error) from error


def saved(env: HostEnv) -> dict[str, Any] | None:
    """The environment's state, which can be written as JSON; None where it cannot be saved."""

    state = _asked(env, "when it was saved", env.save)
    try:
        json.dumps(state)
    except (TypeError, ValueError, RecursionError) as error:
        said = f"what {env.spec.name} returned when it was saved is not JSON: {error}"
        raise EnvironmentFault(said) from error
    return state


def restored(env: HostEnv, state: dict[str, Any]) -> None:
    _asked(env, "when it was restored", lambda: env.restore(state))


def _asked(env: HostEnv, when: str, call: Callable[[], Any]) -> Any:
    process = os.getpid()
    try:
        answer = call()
    except (HeadraceError, KeyboardInterrupt):
        raise
    except BaseException as error:
        end_forked(process, error)
        raise _fault(env, when, error) from error
    end_forked(process)
    return answer


def _fault(env: HostEnv, when: str, error: BaseException) -> EnvironmentFault:
    return EnvironmentFault(f"{env.spec.name} raised {raised(error, f' {when}')}")


def end_forked(owner: int, error: BaseException | None = None) -> None:
    """Ends this process if it is a child that an environment forked, which must not go on in its parent's place."""
    if os.getpid() == owner:
        return
    status = error.code if isinstance(error, SystemExit) else 1
    if error and status not in (None, 0):
        print(f"headrace: a child that the environment forked ended with {raised(error)}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
