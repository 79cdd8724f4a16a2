"""Environments of the host in worker processes, which step together. Frames travel through shared memory.

A worker has a few of the environments. It takes their actions from shared memory, leaves what they led to there, and
says by one byte that it has; only errors and saved states are pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from ctypes import c_byte
from math import prod
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from headrace.engines.base import begun, end_forked, restored, saved, stepped
from headrace.envs.answers import numbers
from headrace.envs.base import EnvSpec, HostEnv, TimeStep
from headrace.envs.registry import Environment
from headrace.errors import EnvironmentFault

STEP, DONE = b"s", b"."
OTHER = b"o"  # what follows is pickled
DIED = "a process that steps environments has died (killed, or out of memory?)"
MadeOf = tuple[int, tuple[int, ...], str]


class Shared:
    """What all environments share with the learner: their actions, and what these led to, a row each."""

    def __init__(self, rows: int, frame_shape: tuple[int, ...], dtype: str, memory: Any = None) -> None:
        self.made_of = rows, frame_shape, dtype
        layout = [
            ("obs", (rows, *frame_shape), dtype), ("successor", (rows, *frame_shape), dtype), ("reward", (rows,), "f4"),
            ("step", (rows,), "i4"), ("action", (rows,), "i4"),
            ("terminated", (rows,), "?"), ("truncated", (rows,), "?"), ("last", (rows,), "?"),
        ]  # fmt: skip
        sizes = [-(-prod(shape) * np.dtype(kind).itemsize // 64) * 64 for _, shape, kind in layout]
        room: Any = memory or multiprocessing.get_context("spawn").RawArray(c_byte, sum(sizes))
        self.memory = room
        starts = np.cumsum([0, *sizes])
        for (name, shape, kind), start in zip(layout, starts[:-1], strict=True):
            flat = np.frombuffer(room, kind, prod(shape), int(start))
            setattr(self, name, flat.reshape(shape))

    obs: np.ndarray
    successor: np.ndarray
    reward: np.ndarray
    step: np.ndarray
    action: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    last: np.ndarray

    def timestep(self) -> TimeStep:
        return TimeStep(self.obs, self.successor, self.reward, self.terminated, self.truncated, self.last)


class Pool:
    """Environments of one frame shape, each with its row. Close it, or its workers end with this process."""

    def __init__(self, envs: Sequence[Environment], workers: int | None = None) -> None:
        found = {env: env.host().spec for env in dict.fromkeys(envs)}
        self.specs: list[EnvSpec] = [found[env] for env in envs]
        spec, context = self.specs[0], multiprocessing.get_context("spawn")
        self.shared = Shared(len(envs), spec.frame_shape, spec.dtype)
        count = min(len(envs), workers or len(os.sched_getaffinity(0)))
        self._rows = [list(range(i, len(envs), count)) for i in range(count)]
        self._ends: list[Connection] = []
        self._processes = []
        for rows in self._rows:
            mine, theirs = context.Pipe()
            words = (theirs, self.shared.made_of, self.shared.memory, [(row, envs[row]) for row in rows])
            process = context.Process(target=work, args=words, daemon=True)
            process.start()
            theirs.close()
            self._ends.append(mine)
            self._processes.append(process)

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """The first observations."""
        self._ask([("reset", [seeds[row] for row in rows]) for rows in self._rows])
        return self.shared.obs

    def step(self, actions: np.ndarray, step: np.ndarray) -> TimeStep:
        """What the actions led to; the arrays are overwritten by the next step."""
        self.shared.action[:], self.shared.step[:] = actions, step
        self._send([(STEP,)] * len(self._ends))
        self._answers()
        return self.shared.timestep()

    def save(self) -> list[dict[str, Any] | None]:
        return self._by_row(self._ask([("save", [None] * len(rows)) for rows in self._rows]))

    def restore(self, seeds: Sequence[int], saved: Sequence[dict[str, Any] | None]) -> np.ndarray:
        """Makes the environments what they were; one without a saved state begins, with the observation returned."""
        self._ask([("restore", [(seeds[row], saved[row]) for row in rows]) for rows in self._rows])
        return self.shared.obs

    def close(self) -> None:
        for end in self._ends:
            end.close()
        for process in self._processes:
            process.join()

    def _by_row(self, answers: Sequence[Sequence[Any]]) -> list[Any]:
        found = {
            row: x for rows, many in zip(self._rows, answers, strict=True) for row, x in zip(rows, many, strict=True)
        }
        return [found[row] for row in range(len(found))]

    def _ask(self, requests: Sequence[Any]) -> list[Any]:
        self._send([(OTHER, request) for request in requests])
        return self._answers()

    def _send(self, requests: Sequence[Any]) -> None:
        try:
            for end, (word, *request) in zip(self._ends, requests, strict=True):
                end.send_bytes(word)
                for one in request:
                    end.send(one)
        except OSError as error:
            raise EnvironmentFault(DIED) from error

    def _answers(self) -> list[Any]:
        """Of all workers; the first error among them is raised once each has answered."""
        try:
            answers = [() if end.recv_bytes() == DONE else end.recv() for end in self._ends]
        except (EOFError, OSError) as error:
            raise EnvironmentFault(DIED) from error
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers


def work(
    end: Connection, made_of: tuple[int, tuple[int, ...], str], memory: Any, envs: list[tuple[int, Environment]]
) -> None:
    """A worker: serves its environments until the other end is closed."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the learner hears of Ctrl-C and of a closed terminal, and closes
    process, shared = os.getpid(), Shared(*made_of, memory)
    hosted = [(row, env.host()) for row, env in envs]
    while True:
        try:
            word = end.recv_bytes()
            request = end.recv() if word == OTHER else None
        except (EOFError, OSError):  # nobody is there any more
            return
        try:
            answer = _served(shared, hosted, request)
        except EnvironmentFault as fault:
            end_forked(process, fault.__cause__)
            answer = fault
        end_forked(process)
        end.send_bytes(DONE if answer is None else OTHER)
        if answer is not None:
            end.send(answer)


def _served(shared: Shared, hosted: list[tuple[int, HostEnv]], request: Any) -> Any:
    if request is None:
        for row, env in hosted:
            _take(shared, row, env, stepped(env, int(shared.action[row]), int(shared.step[row])))
        return None
    what, arguments = request
    if what == "reset":
        for (row, env), seed in zip(hosted, arguments, strict=True):
            shared.obs[row] = numbers(begun(env, seed), "first observation", shared.obs.shape[1:], env.spec.name, 0)
        return None
    if what == "save":
        return [saved(env) for _, env in hosted]
    for (row, env), (seed, state) in zip(hosted, arguments, strict=True):
        shared.obs[row] = begun(env, seed)
        if state is not None:
            restored(env, state)
    return None


def _take(shared: Shared, row: int, env: HostEnv, timestep: TimeStep) -> None:
    frame, name, step = shared.obs.shape[1:], env.spec.name, int(shared.step[row])
    shared.successor[row] = numbers(timestep.successor, "successor", frame, name, step)
    shared.obs[row] = (
        numbers(timestep.obs, "observation", frame, name, step) if timestep.last else shared.successor[row]
    )
    shared.reward[row] = numbers(timestep.reward, "reward", (), name, step)
    shared.terminated[row], shared.truncated[row] = timestep.terminated, timestep.truncated
    shared.last[row] = timestep.last
