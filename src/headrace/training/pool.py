"""Environments of the host in worker processes, stepped in parts that take turns. Frames travel in shared memory.

A worker has a few environments of every part. It takes their actions from shared memory and leaves there what they led
to; only errors and saved states are pickled. An environment that raises, or whose worker dies, fails its own row: the
row stands still from then on, and the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_byte
from itertools import pairwise
from math import prod
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from headrace.engines.base import begun, end_forked, restored, saved, stepped
from headrace.envs.answers import numbers
from headrace.envs.base import EnvSpec, HostEnv, TimeStep
from headrace.envs.registry import Environment
from headrace.errors import BadSetting, EnvironmentFault

DIED = "the process that steps its environment has died (killed, or out of memory?)"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
REWARD, TERMINATED, TRUNCATED, LAST = range(4)  # columns of an outcome
SPIN_SECONDS = 1e-3  # that a worker looks for its next turn before it sleeps, where nobody else needs its core
LOOK_SECONDS = 1.0  # between two looks of a sleeping worker whether anybody is there
ALIVE_SECONDS = 0.1  # that the learner waits before it looks whether the late workers live


class Shared:
    """What the environments share with the learner, a row each, and the counters by which they take turns."""

    def __init__(
        self, rows: int, frame_shape: tuple[int, ...], dtype: str, parts: int, workers: int, numbers: int,
        memory: Any = None,
    ) -> None:  # fmt: skip
        """In boxes an action is up to so many `numbers`; elsewhere these are 0."""
        self.made_of = rows, frame_shape, dtype, parts, workers, numbers
        actions = ((rows, numbers), "f4") if numbers else ((rows,), "i4")
        layout = [
            ("obs", (rows, *frame_shape), dtype), ("successor", (rows, *frame_shape), dtype),
            ("outcome", (rows, 4), "f4"), ("action", *actions), ("broken", (rows,), "?"),
            ("step", (parts,), "i8"), ("wanted", (parts,), "i8"), ("served", (parts, workers), "i8"),
            ("busy", (workers,), "f8"),
        ]  # fmt: skip
        sizes = [-(-prod(shape) * np.dtype(kind).itemsize // 64) * 64 for _, shape, kind in layout]
        room: Any = memory or multiprocessing.get_context("spawn").RawArray(c_byte, sum(sizes))
        self.memory = room
        starts = np.cumsum([0, *sizes])
        for (name, shape, kind), start in zip(layout, starts[:-1], strict=True):
            flat = np.frombuffer(room, kind, prod(shape), int(start))
            setattr(self, name, flat.reshape(shape))

    obs: np.ndarray  # what to act on next; where no episode ended it is the successor, and not written here
    successor: np.ndarray
    outcome: np.ndarray  # reward, terminated, truncated, last
    action: np.ndarray
    broken: np.ndarray  # rows that stand still
    step: np.ndarray  # that a part takes now
    wanted: np.ndarray  # turns that a part was given
    served: np.ndarray  # turns that each worker has taken
    busy: np.ndarray  # seconds that each worker has stepped environments


class Answer(NamedTuple):
    """What the actions of a part led to, a row each; overwritten in the part's next turn."""

    successor: np.ndarray
    obs: np.ndarray  # in rows whose episode ended
    outcome: np.ndarray

    def timestep(self) -> TimeStep:
        ended = self.outcome[:, LAST].astype(bool)
        obs = np.where(ended.reshape(-1, *[1] * (self.obs.ndim - 1)), self.obs, self.successor)
        flags = (self.outcome[:, column].astype(bool) for column in (TERMINATED, TRUNCATED, LAST))
        return TimeStep(obs, self.successor, self.outcome[:, REWARD], *flags)


class Pool:
    """Environments of one frame shape, each with its row. Close it, or its workers end with this process."""

    def __init__(
        self, envs: Sequence[Environment], parts: int = 2, workers: int | None = None, spin: bool = False
    ) -> None:
        """`spin` has workers look for their next turn before they sleep: to be woken takes as long as a step, but what
        computes on the same cores is slowed down."""
        found = {env: env.host().spec for env in dict.fromkeys(envs)}
        self.specs: list[EnvSpec] = [found[env] for env in envs]
        _require_alike(self.specs)
        spec, context, size = self.specs[0], multiprocessing.get_context("spawn"), len(envs)
        self.parts = split(size, parts)
        self.faults: dict[int, EnvironmentFault] = {}  # by row
        turns = max(part.stop - part.start for part in self.parts)
        count = min(turns, workers or even(turns, len(os.sched_getaffinity(0))))
        numbers = max(each.n_actions for each in self.specs) if spec.box else 0
        self.shared = Shared(size, spec.frame_shape, spec.dtype, len(self.parts), count, numbers)
        self._rows = [
            [row for part in self.parts for row in range(part.start + i, part.stop, count)] for i in range(count)
        ]
        self._here = [_those_with_rows(self._rows, part) for part in self.parts]
        self._done = [context.Semaphore(0) for _ in self.parts]
        self._turns = [context.Semaphore(0) for _ in range(count)]
        self._ends: list[Connection] = []
        self._processes: list[Any] = []
        self._lock = Lock()  # each part may be waited for in a thread of its own
        with _one_thread_each():
            for number, rows in enumerate(self._rows):
                mine, theirs = context.Pipe()
                work_words = Work(
                    number, theirs, self._turns[number], self._done, self.shared.made_of, self.shared.memory,
                    [(row, envs[row]) for row in rows], self.parts, SPIN_SECONDS if spin else 0.0,
                )  # fmt: skip
                process = context.Process(target=work, args=(work_words,), daemon=True)
                process.start()
                theirs.close()
                self._ends.append(mine)
                self._processes.append(process)

    # Turns

    def start(self, part: int, actions: np.ndarray, step: int) -> None:
        """Has the part's environments take the actions, the run's `step`-th. It does not wait for them."""
        self.shared.action[self.parts[part]], self.shared.step[part] = actions, step
        self.shared.wanted[part] += 1
        for worker in self._here[part]:
            self._turns[worker].release()

    def wait(self, part: int) -> None:
        """Until the part's environments have taken their actions."""
        heard, rows = 0, self.parts[part]
        while heard < len(self._here[part]) or not self._all_served(part):
            if self._done[part].acquire(True, ALIVE_SECONDS):
                heard += 1
                continue
            self._bury()
            if self._all_served(part):  # by those who live: a dead worker may have said so, or not
                break
        if self.shared.broken[rows].sum() > sum(row in self.faults for row in range(rows.start, rows.stop)):
            self._hear_of_faults()

    def _all_served(self, part: int) -> bool:
        return bool((self.shared.served[part, self._here[part]] == self.shared.wanted[part]).all())

    def answer(self, part: int) -> Answer:
        """What the actions led to, after `wait`."""
        rows, shared = self.parts[part], self.shared
        return Answer(shared.successor[rows], shared.obs[rows], shared.outcome[rows])

    # Everything else

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """The first observations."""
        self._ask("reset", list(seeds))
        return self.shared.obs

    def save(self) -> list[dict[str, Any] | None]:
        """The environments' states; None where there is none, and of a row that has failed."""
        return self._ask("save", [None] * len(self.specs))

    def restore(self, seeds: Sequence[int], saved: Sequence[dict[str, Any] | None]) -> np.ndarray:
        """Makes the environments what they were; one without a saved state begins, with the observation returned."""
        self._ask("restore", list(zip(seeds, saved, strict=True)))
        return self.shared.obs

    def close(self) -> None:
        for end, turn in zip(self._ends, self._turns, strict=True):
            end.close()
            turn.release()
        for process in self._processes:
            process.join()

    @property
    def workers(self) -> int:
        return len(self._rows)

    def _ask(self, what: str, arguments: Sequence[Any]) -> list[Any]:
        """The answer for every row; a fault among them fails its row."""
        answers: list[Any] = [None] * len(self.specs)
        for worker, rows in enumerate(self._rows):
            self._tell(worker, (what, [(row, arguments[row]) for row in rows if row not in self.faults]))
        for worker in range(self.workers):
            for row, answer in self._heard(worker):
                if isinstance(answer, EnvironmentFault):
                    self._fail(row, answer)
                else:
                    answers[row] = answer
        return answers

    def _tell(self, worker: int, request: Any) -> None:
        try:
            self._ends[worker].send(request)
        except OSError:
            self._lose(worker)
        self._turns[worker].release()

    def _heard(self, worker: int) -> list[tuple[int, Any]]:
        try:
            return self._ends[worker].recv()
        except (EOFError, OSError):
            self._lose(worker)
            return []

    def _hear_of_faults(self) -> None:
        """Each worker has said beforehand what its environments raised."""
        with self._lock:
            rows = set(np.flatnonzero(self.shared.broken)) - set(self.faults)
            for worker in {worker for worker, its in enumerate(self._rows) if rows & set(its)}:
                while self._ends[worker].poll(0) and (heard := self._heard(worker)):
                    for row, fault in heard:
                        self._fail(row, fault)

    def _bury(self) -> None:
        """The rows of workers that are no more have failed."""
        with self._lock:
            for worker, process in enumerate(self._processes):
                if not process.is_alive():
                    self._lose(worker)

    def _lose(self, worker: int) -> None:
        for row in self._rows[worker]:
            self._fail(row, EnvironmentFault(f"{self.specs[row].name}: {DIED}"))
        self._here = [[other for other in part if other != worker] for part in self._here]

    def _fail(self, row: int, fault: EnvironmentFault) -> None:
        self.faults.setdefault(row, fault)
        self.shared.broken[row] = True
        self.shared.outcome[row] = 0


def split(rows: int, parts: int) -> list[slice]:
    """So many parts of nearly equal size, or fewer where there are not as many rows."""
    parts = min(parts, rows)
    bounds = [round(i * rows / parts) for i in range(parts + 1)]
    return [slice(start, end) for start, end in pairwise(bounds)]


def even(rows: int, cores: int) -> int:
    """The fewest workers that take as few steps one after another, in a turn of `rows`, as all cores would. Of more
    than three cores two are left to the learner, of three one."""
    most = max(cores - 2, min(cores, 2))
    return -(-rows // -(-rows // most))


def _those_with_rows(rows: Sequence[Sequence[int]], part: slice) -> list[int]:
    return [worker for worker, its in enumerate(rows) if any(part.start <= row < part.stop for row in its)]


def _require_alike(specs: Sequence[EnvSpec]) -> None:
    if len({spec.box for spec in specs}) > 1:
        raise BadSetting("games with actions by number and games with boxes of actions cannot share a fleet")
    found = {(spec.frame_shape, spec.dtype): spec.name for spec in specs}
    if len(found) > 1:
        shown = " and ".join(f"{name} ({dtype} {list(shape)})" for (shape, dtype), name in found.items())
        raise BadSetting(f"environments of a fleet must show frames of one shape, got {shown}: sweep each by itself")


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile have one thread each in NumPy's products: there is one of them a core."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


# In the worker


class Work(NamedTuple):
    """What a worker is given."""

    number: int
    end: Connection
    turns: Any  # a semaphore: a turn of one of the parts, or a request at `end`
    done: list[Any]  # semaphores of the parts: a worker has taken its turn
    made_of: tuple[int, tuple[int, ...], str, int, int, int]
    memory: Any
    envs: list[tuple[int, Environment]]
    parts: list[slice]
    spin: float  # seconds


def work(given: Work) -> None:
    """Serves its environments until the other end is closed."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the learner hears of Ctrl-C and of a closed terminal, and closes
    shared = Shared(*given.made_of, given.memory)
    envs = {row: env.host() for row, env in given.envs}
    rows = [[row for row in envs if part.start <= row < part.stop] for part in given.parts]
    taken = [0] * len(rows)
    while True:
        _wait_for_turn(given)
        part = next((p for p, its in enumerate(rows) if its and taken[p] < shared.wanted[p]), None)
        if part is None:
            try:
                what, arguments = given.end.recv()
            except (EOFError, OSError):  # nobody is there any more
                return
            given.end.send([(row, _answered(shared, envs[row], row, what, word)) for row, word in arguments])
            continue
        began = time.perf_counter()
        for row in rows[part]:
            if not shared.broken[row]:
                _step(given, shared, envs[row], row, int(shared.step[part]))
        taken[part] += 1
        shared.busy[given.number] += time.perf_counter() - began
        shared.served[part, given.number] = taken[part]
        given.done[part].release()


def _wait_for_turn(given: Work) -> None:
    """Until there is one, or the process at the other end has ended."""
    until = time.perf_counter() + given.spin
    while time.perf_counter() < until:
        if given.turns.acquire(False):
            return
        os.sched_yield()
    while not given.turns.acquire(True, LOOK_SECONDS):
        if given.end.poll(0):  # closed: a request comes with a turn
            return


def _step(given: Work, shared: Shared, env: HostEnv, row: int, step: int) -> None:
    process = os.getpid()
    try:
        timestep = stepped(env, _action(shared, row, env.spec), step)
        _take(shared, row, env, timestep, step)
    except EnvironmentFault as fault:
        end_forked(process, fault.__cause__)
        given.end.send([(row, fault)])
        shared.broken[row], shared.outcome[row] = True, 0
    end_forked(process)


def _action(shared: Shared, row: int, spec: EnvSpec) -> Any:
    """A row may have room for more numbers than its environment takes."""
    return np.array(shared.action[row, : spec.n_actions]) if spec.box else int(shared.action[row])


def _take(shared: Shared, row: int, env: HostEnv, timestep: TimeStep, step: int) -> None:
    shared.successor[row] = _frame(shared, timestep.successor, "successor", env, step)
    if timestep.last:
        shared.obs[row] = _frame(shared, timestep.obs, "observation", env, step)
    reward = numbers(timestep.reward, "reward", (), env.spec.name, step)
    shared.outcome[row] = reward, timestep.terminated, timestep.truncated, timestep.last


def _frame(shared: Shared, value: Any, what: str, env: HostEnv, step: int) -> np.ndarray:
    """As it is where nothing can be wrong with it."""
    shape = shared.obs.shape[1:]
    if isinstance(value, np.ndarray) and value.dtype == shared.obs.dtype == np.uint8 and value.shape == shape:
        return value
    return numbers(value, what, shape, env.spec.name, step)


def _answered(shared: Shared, env: HostEnv, row: int, what: str, word: Any) -> Any:
    """Saves, resets or restores an environment; what went wrong with it is an answer too."""
    try:
        if what == "save":
            return saved(env)
        if what == "reset":
            shared.obs[row] = numbers(begun(env, word), "first observation", shared.obs.shape[1:], env.spec.name, 0)
            return None
        seed, state = word
        shared.obs[row] = begun(env, seed)
        return None if state is None else restored(env, state)
    except EnvironmentFault as fault:
        return fault
