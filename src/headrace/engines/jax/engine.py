"""The reference engine as an object: an agent on one stream, stepped from Python."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from headrace.agents import Agent
from headrace.definition.networks import layout_in
from headrace.engines.base import EpisodeResult
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from headrace.engines.jax.stream import (
    StreamState,
    advance,
    begin,
    make_setting,
    report,
    restarted,
    sight_told,
    trouble_in,
)
from headrace.envs.answers import numbers
from headrace.envs.base import EnvSpec, TimeStep

_begin = jax.jit(begin, static_argnums=1)
begin_shapes = _begin.eval_shape
_restarted = jax.jit(restarted, static_argnums=1, donate_argnums=2)
_advance = jax.jit(advance, static_argnums=1, donate_argnums=2)


class ReferenceEngine:
    """One agent on one stream: `begin`, then `action` and `learn` in turn. Each transition is seen once."""

    name = "reference"

    def __init__(self, agent: Agent, spec: EnvSpec, *, seed: int, steps: int) -> None:
        self.agent, self.spec = agent, spec
        self.layout = layout_in(agent, spec)
        self.setting = make_setting(agent, seed, steps)
        self.state: StreamState | None = None

    @property
    def step(self) -> int:
        """Transitions learnt from so far."""
        return int(self._begun().agent.step)

    @property
    def action(self) -> Any:
        """The action to take now: its number, or in a box its numbers."""
        action = self._begun().choice.action
        return np.asarray(action) if self.layout.box else int(action)

    def begin(self, obs: np.ndarray) -> None:
        """Starts with the environment's first observation."""
        self.state = _begin(self.setting, self.layout, self._image(obs, "first observation"))

    def restart(self, obs: np.ndarray) -> None:
        """Goes on with another episode where the present one cannot: traces and window empty, nothing learnt."""
        first = self._image(obs, "first observation")
        self.state = _restarted(self.setting, self.layout, self._begun(), first)

    def learn(self, timestep: TimeStep) -> EpisodeResult | None:
        """Learns from what `action` led to; returns the episode if it ended there."""
        seen = TimeStep(
            obs=self._image(timestep.obs, "observation"),
            successor=self._image(timestep.successor, "successor"),
            reward=self._array(timestep.reward, "reward", ()),
            terminated=np.bool_(timestep.terminated),
            truncated=np.bool_(timestep.truncated),
            last=np.bool_(timestep.last),
        )
        self.state, finished = _advance(self.setting, self.layout, self._begun(), seen)
        if not timestep.last:
            return None
        return EpisodeResult(self.step, float(finished.episode_return), int(finished.episode_length))

    def report(self) -> dict[str, float]:
        """Means over the steps since the last report, those of the auxiliary over the steps on which it learnt; and how
        well the agent sees now."""
        state = self._begun()
        means, tally = report(state.tally)
        self.state = state._replace(tally=tally)
        return {**means, **sight_told(self.layout, state)}

    def trouble(self) -> tuple[str, int] | None:
        """The first quantity that was not finite and the step it happened at, if any."""
        return trouble_in(self._begun().tally)

    def save(self) -> dict[str, np.ndarray]:
        """Everything the stream knows, as named arrays."""
        return named_arrays("stream", self._begun())

    arrays = save

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        blank = np.zeros(self.layout.frame_shape, np.float32)
        template = begin_shapes(self.setting, self.layout, blank)
        self.state = from_named_arrays("stream", template, arrays)

    def _begun(self) -> StreamState:
        if self.state is None:
            raise RuntimeError("call begin(obs) first")
        return self.state

    def _image(self, obs: Any, what: str) -> np.ndarray:
        return self._array(obs, what, self.layout.frame_shape)

    def _array(self, value: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
        return numbers(value, what, shape, self.spec.name, self.step + 1 if self.state else 0)
