"""Many streams in one compiled program whose environments run on the host, in worker processes.

A step of the fleet: all environments take their actions, and one program makes of what these led to the next states and
actions. Each stream is the run alone on the host form: the same environment with the same seed, and the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.definition.networks import Layout
from headrace.engines.base import Saved, broken_off
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from headrace.engines.jax.compiled import BUFFER, Log
from headrace.engines.jax.fleet import GRAPHS, Block, Fleet, cut, on_card, renewed, stack
from headrace.engines.jax.stream import Finished, Setting, StreamState, Tally, advance, begin, restarted
from headrace.envs.base import EnvSpec, TimeStep


class Shown(NamedTuple):
    """What a fleet must know of an environment that is elsewhere."""

    spec: EnvSpec


class Games(Protocol):
    """The environments of a host fleet, a row each, wherever they run: `headrace.training.pool` uses processes."""

    specs: list[EnvSpec]

    def reset(self, seeds: Sequence[int]) -> np.ndarray: ...
    def step(self, actions: np.ndarray, step: np.ndarray) -> TimeStep: ...
    def save(self) -> list[dict[str, Any] | None]: ...
    def restore(self, seeds: Sequence[int], saved: Sequence[dict[str, Any] | None]) -> np.ndarray: ...
    def close(self) -> None: ...


def _advance(settings: Setting, layout: Layout, state: StreamState, answer: TimeStep) -> tuple[StreamState, Finished]:
    """One step of all streams. Frames travel as the environment has them, and become float32 here."""
    images = {name: getattr(answer, name).astype(jnp.float32) for name in ("obs", "successor")}
    return jax.vmap(advance)(settings, layout, state, answer._replace(**images))


def _counted_off(state: StreamState) -> tuple[StreamState, Tally]:
    """The states with their sums begun anew, and what they were."""
    return state._replace(tally=renewed(state.tally, state.agent.step)), state.tally


class HostFleet(Fleet):
    """Streams that advance together, with environments of the host. Streams of one game stand next to each other."""

    def __init__(self, agents: Sequence[Agent], games: Games, seeds: Sequence[int], steps: int) -> None:
        super().__init__(agents, [Shown(spec) for spec in games.specs], seeds, steps)  # type: ignore[misc]
        self.games, self.seeds = games, list(seeds)
        self._advance = jax.jit(_advance, donate_argnums=2, compiler_options=on_card(GRAPHS))
        self._counted_off = jax.jit(_counted_off, donate_argnums=0)
        self._state: StreamState | None = None

    def begin(self) -> None:
        frames = np.asarray(self.games.reset(self.seeds), np.float32)
        started = []
        for group in self.groups:
            first = jax.vmap(lambda setting, obs, layout=group.layout: begin(setting, layout, obs))
            started.append(self._with_room(jax.jit(first)(group.settings, frames[group.rows])))
        self._state, self.step = jax.tree.map(lambda *xs: jnp.concatenate(xs), *started), 0

    def run(self, n: int) -> Block:
        """Takes n <= 1,000 steps in every stream. A step waits for the actions that the one before it chose."""
        state, ended = self._going(), []
        numbers = np.full(self.size, self.step, np.int32)
        for i in range(n):
            answer = self.games.step(np.asarray(state.choice.action), numbers + (i + 1))
            state, finished = self._advance(self.settings, self.layout, state, answer)
            if answer.last.any():
                ended.append((i, finished))
        sight = {} if (self.step + n) % BUFFER else self._sight(self._as_written, state)
        self._state, tally = self._counted_off(state)
        self.step += n
        return Block(self.step - n, n, self._log(n, ended), tally, sight)

    def _log(self, n: int, ended: Sequence[tuple[int, Finished]]) -> Log:
        log: Any = Log(*(np.zeros((n, self.size), kind) for kind in ("?", "f4", "i4")))  # type: ignore[arg-type]
        for i, finished in ended:
            for rows, values in zip(log, jax.device_get(finished), strict=True):
                rows[i] = values
        return log

    def save(self) -> list[Saved]:
        """Each stream as it would have saved itself alone."""
        state, played, saved = jax.device_get(self._going()), self.games.save(), list[Saved]()
        for group in self.groups:
            template = group.template()
            for row in range(*group.rows.indices(self.size)):
                mine = jax.tree.map(lambda like, x, row=row: cut(x[row], like.shape), template, state)
                saved.append((named_arrays("stream", mine), {"env": played[row]}))
        return saved

    def restore(self, saved: Sequence[Saved]) -> list[str]:
        """Where an environment could not be saved, a new episode is begun."""
        arrays, played = [a for a, _ in saved], [state.get("env") for _, state in saved]
        self.step = int(arrays[0]["stream/agent/step"])
        seeds = [s if game else (s + self.step) % 2**31 for s, game in zip(self.seeds, played, strict=True)]
        first = np.asarray(self.games.restore(seeds, played), np.float32)
        states = []
        for group in self.groups:
            template, rows = group.template(), range(*group.rows.indices(self.size))
            ours = [from_named_arrays("stream", template, arrays[row]) for row in rows]
            ours = [x if played[i] else self._restarted(group, i, x, first[i]) for i, x in zip(rows, ours, strict=True)]
            states.append(self._with_room(stack(ours)))
        self._state = jax.tree.map(lambda *xs: jnp.concatenate(xs), *states)
        return [broken_off(spec, state) for spec, (_, state) in zip(self.games.specs, saved, strict=True)]

    def _restarted(self, group: Any, row: int, state: StreamState, obs: np.ndarray) -> StreamState:
        setting = jax.tree.map(lambda x: x[row], self.settings)
        return jax.jit(partial(restarted, layout=group.layout))(setting, state=state, obs=obs)

    def close(self) -> None:
        self.games.close()

    def _going(self) -> StreamState:
        if self._state is None:
            raise RuntimeError("call begin() or restore(...) first")
        return self._state
