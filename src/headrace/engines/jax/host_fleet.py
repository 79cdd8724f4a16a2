"""Many streams in one compiled program whose environments run on the host, in worker processes.

The streams are two halves that take turns: while the accelerator learns from what one half saw, the environments of the
other take their actions. Each stream is the run alone on the host form: the same environment with the same seed, and
the same draws.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.definition.networks import Layout
from headrace.engines.base import Saved, broken_off
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from headrace.engines.jax.compiled import BUFFER, Log
from headrace.engines.jax.fleet import GRAPHS, Block, Fleet, cut, on_card, renewed, sight_of_all, stack
from headrace.engines.jax.packed import pack, packed_where_known, unpack
from headrace.engines.jax.stream import Finished, Setting, StreamState, Tally, advance, begin, restarted
from headrace.engines.jax.together import evaluate_together
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import EnvironmentFault

LAST = 3  # the column of an outcome


class Shown(NamedTuple):
    """What a fleet must know of an environment that is elsewhere."""

    spec: EnvSpec


class Answer(Protocol):
    """What the actions of a part led to, a row each. `obs` counts where an episode ended."""

    @property
    def successor(self) -> np.ndarray: ...
    @property
    def obs(self) -> np.ndarray: ...
    @property
    def outcome(self) -> np.ndarray:
        """Reward, terminated, truncated, last: float32."""


class Games(Protocol):
    """The environments of a host fleet, a row each, wherever they run: `headrace.training.pool` uses processes."""

    specs: list[EnvSpec]
    parts: list[slice]  # that take turns
    faults: dict[int, EnvironmentFault]  # rows that stand still, and why

    def reset(self, seeds: Sequence[int]) -> np.ndarray: ...
    def start(self, part: int, actions: np.ndarray, step: int) -> None: ...
    def wait(self, part: int) -> None: ...
    def answer(self, part: int) -> Answer: ...
    def save(self) -> list[dict[str, Any] | None]: ...
    def restore(self, seeds: Sequence[int], saved: Sequence[dict[str, Any] | None]) -> np.ndarray: ...
    def close(self) -> None: ...


def _advance(
    settings: Setting, layout: Layout, state: StreamState, successor: jax.Array, begun: jax.Array, outcome: jax.Array
) -> tuple[StreamState, Finished]:
    """One step of a part. Frames travel as the environment has them, and become float32 here."""
    reward, *flags = outcome.T
    terminated, truncated, last = (flag > 0 for flag in flags)
    ended = last.reshape(-1, *[1] * (begun.ndim - 1))
    obs, successor = (x.astype(jnp.float32) for x in (jnp.where(ended, begun, successor), successor))
    timestep = TimeStep(obs, successor, reward, terminated, truncated, last)
    return jax.vmap(partial(advance, values_of=evaluate_together))(settings, layout, state, timestep)


def _program() -> Any:
    """The compiled step of one half. On a card each half has its own: a card's graph holds the addresses of the state,
    and to change them at every call takes as long as the step."""
    options = on_card(GRAPHS)
    step = partial(_advance) if options else _advance
    return jax.jit(step, donate_argnums=2, compiler_options=options)


@partial(jax.jit, static_argnums=0)
def _first(layout: Layout, settings: Setting, frames: np.ndarray) -> StreamState:
    """The streams of a group before their first step."""
    return jax.vmap(lambda setting, obs: begin(setting, layout, obs))(settings, frames)


@jax.jit
def _renewed(tally: Tally, step: jax.Array) -> Tally:
    """The sums begun anew, in arrays of their own: the old ones are read later."""
    return jax.tree.map(jnp.copy, renewed(tally, step))


class Clock:
    """Where the time of a half went, in seconds: handing work over, and waiting for it to be done."""

    def __init__(self) -> None:
        self.dispatch = self.device = self.start = self.environments = 0.0


class Half:
    """Some streams of a fleet, which wait for the accelerator and for their environments in turn."""

    def __init__(self, number: int, rows: slice, settings: Setting, layout: Layout, games: Games) -> None:
        self.number, self.rows, self.layout, self.games, self._program = number, rows, layout, games, _program()
        self.settings = jax.tree.map(lambda x: x[rows], settings)
        frame = games.specs[0]
        self._none = jnp.zeros((rows.stop - rows.start, *frame.frame_shape), frame.dtype)  # no episode has ended
        self.state: StreamState | None = None
        self.clock = Clock()

    def run(self, first: int, n: int) -> list[tuple[int, Finished]]:
        """Takes n steps, of which the run's `first` is the first; those with ends of episodes, by number."""
        assert self.state is not None
        ended, clock = [], self.clock
        for i in range(n):
            times = [time.perf_counter()]
            actions = np.asarray(self.state.choice.action)
            times.append(time.perf_counter())
            self.games.start(self.number, actions, first + i)
            times.append(time.perf_counter())
            self.games.wait(self.number)
            times.append(time.perf_counter())
            finished = self.learn(self.games.answer(self.number))
            times.append(time.perf_counter())
            if finished is not None:
                ended.append((i, finished))
            for what, took in zip(("device", "start", "environments", "dispatch"), np.diff(times), strict=True):
                setattr(clock, what, getattr(clock, what) + took)
        return ended

    def learn(self, answer: Answer) -> Finished | None:
        """Begins to learn from the answer, and asks for the actions that follow."""
        ended = bool(answer.outcome[:, LAST].any())
        begun = answer.obs if ended else self._none
        self.state, finished = self._program(
            self.settings, self.layout, self.state, answer.successor, begun, answer.outcome
        )
        self.state.choice.action.copy_to_host_async()
        return finished if ended else None


class HostBlock(Block):
    """What some steps of the halves left."""

    def __init__(
        self, start: int, steps: int, halves: Sequence[Half], ended: Sequence[Sequence[tuple[int, Finished]]],
        tallies: Sequence[Tally], sights: Sequence[dict[str, jax.Array]],
    ) -> None:  # fmt: skip
        self.start, self.steps = start, steps
        self._rows, self._ended = [half.rows for half in halves], ended
        self._tallies, self._sights = tallies, sights

    @cached_property
    def tally(self) -> Tally:
        return _joined(jax.device_get(self._tallies))

    @cached_property
    def _sight(self) -> dict[str, Any]:  # type: ignore
        return _joined(jax.device_get(self._sights))

    @cached_property
    def _log(self) -> Any:  # type: ignore
        log = Log(*(np.zeros((self.steps, self._rows[-1].stop), kind) for kind in ("?", "f4", "i4")))  # type: ignore
        for rows, ended in zip(self._rows, self._ended, strict=True):
            for i, finished in ended:
                for many, values in zip(log, jax.device_get(finished), strict=True):
                    many[i, rows] = values
        return log


def _joined(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *xs: np.concatenate(xs), *trees)


class HostFleet(Fleet):
    """Streams that advance together, with environments of the host. Streams of one game stand next to each other."""

    def __init__(self, agents: Sequence[Agent], games: Games, seeds: Sequence[int], steps: int) -> None:
        super().__init__(agents, [Shown(spec) for spec in games.specs], seeds, steps)  # type: ignore[misc]
        self.games, self.seeds, self.faults = games, list(seeds), games.faults
        network = packed_where_known(agents[0], self.layout)
        self._packs = network != self.layout.network
        self._as_written = replace(self._as_written, network=packed_where_known(agents[0], self._as_written))
        self.halves = [
            Half(
                i, rows, self.settings, replace(self.layout, network=network, actions=self.layout.actions[rows]), games
            )
            for i, rows in enumerate(games.parts)
        ]
        self._threads = ThreadPoolExecutor(len(self.halves))  # one waits while the other hands over

    def begin(self) -> None:
        frames = np.asarray(self.games.reset(self.seeds), np.float32)
        started = []
        for group in self.groups:
            started.append(self._with_room(_first(group.layout, group.settings, frames[group.rows])))
        self._hand_out(started, 0)

    def run(self, n: int) -> Block:
        """Takes n <= 1,000 steps in every stream."""
        self._going()
        ended = self._threads.map(lambda half: half.run(self.step + 1, n), self.halves)
        return self._left(n, list(ended))

    def _left(self, n: int, ended: Sequence[Sequence[tuple[int, Finished]]]) -> Block:
        """What the steps left; sums begin anew where they are to."""
        sights: list[dict[str, jax.Array]] = []
        tallies = []
        for half in self.halves:
            state = half.state
            assert state is not None
            as_written = replace(self._as_written, actions=half.layout.actions)
            sights.append({} if (self.step + n) % BUFFER else sight_of_all(as_written, state))
            tallies.append(state.tally)
            half.state = state._replace(tally=_renewed(state.tally, state.agent.step))
        self.step += n
        return HostBlock(self.step - n, n, self.halves, ended, tallies, sights)

    def save(self) -> list[Saved]:
        """Each stream as it would have saved itself alone."""
        state, played, saved = _joined(jax.device_get(self._going())), self.games.save(), list[Saved]()
        wide = self._template()
        for group in self.groups:
            template = group.template()
            for row in range(*group.rows.indices(self.size)):
                row_state = jax.tree.map(lambda x, row=row: x[row], state)
                mine = unpack(wide, row_state) if self._packs else row_state
                mine = jax.tree.map(lambda like, x: cut(x, like.shape), template, mine)
                saved.append((named_arrays("stream", mine), {"env": played[row]}))
        return saved

    def restore(self, saved: Sequence[Saved]) -> list[str]:
        """Where an environment could not be saved, a new episode is begun."""
        arrays, played = [a for a, _ in saved], [state.get("env") for _, state in saved]
        step = int(arrays[0]["stream/agent/step"])
        seeds = [s if game else (s + step) % 2**31 for s, game in zip(self.seeds, played, strict=True)]
        first = np.asarray(self.games.restore(seeds, played), np.float32)
        states = []
        for group in self.groups:
            template, rows = group.template(), range(*group.rows.indices(self.size))
            ours = [from_named_arrays("stream", template, arrays[row]) for row in rows]
            ours = [x if played[i] else self._restarted(group, i, x, first[i]) for i, x in zip(rows, ours, strict=True)]
            states.append(self._with_room(stack(ours)))
        self._hand_out(states, step)
        return [broken_off(spec, state) for spec, (_, state) in zip(self.games.specs, saved, strict=True)]

    def _restarted(self, group: Any, row: int, state: StreamState, obs: np.ndarray) -> StreamState:
        setting = jax.tree.map(lambda x: x[row], self.settings)
        return jax.jit(partial(restarted, layout=group.layout))(setting, state=state, obs=obs)

    def _hand_out(self, groups: Sequence[StreamState], step: int) -> None:
        """Gives every half its rows of the groups' states."""
        whole = jax.tree.map(lambda *xs: jnp.concatenate(xs), *groups)
        whole = pack(whole) if self._packs else whole
        for half in self.halves:
            half.state = jax.tree.map(lambda x, rows=half.rows: jnp.array(x[rows]), whole)
        self.step = step

    def _going(self) -> list[StreamState]:
        states = [half.state for half in self.halves if half.state is not None]
        if not states:
            raise RuntimeError("call begin() or restore(...) first")
        return states

    def close(self) -> None:
        self._threads.shutdown()
        self.games.close()
