"""An agent and a compiled environment in one program."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.definition.networks import Layout, layout_in
from headrace.definition.trees import Tree
from headrace.engines.base import EpisodeResult
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from headrace.engines.jax.stream import (
    Setting,
    StreamState,
    advance,
    begin,
    make_setting,
    report,
    sight_told,
    step_keys,
    trouble_in,
)
from headrace.envs.base import CompiledEnv

BUFFER = 1000  # the most steps that one call of a compiled stream may take


class CompiledStream:
    """An agent and a compiled environment in one program; the host hears of finished episodes only."""

    def __init__(self, agent: Agent, env: CompiledEnv, *, seed: int, steps: int) -> None:
        self.agent, self.env = agent, env
        self.layout = layout_in(agent, env.spec)
        self.setting = make_setting(agent, seed, steps)
        self._states: tuple[Tree, StreamState] | None = None

    @property
    def step(self) -> int:
        return int(self._begun()[1].agent.step)

    def begin(self) -> None:
        self._states = _start(self.layout, self.env, self.setting)

    def run(self, n: int) -> list[EpisodeResult]:
        """Takes n <= 1,000 steps; returns the episodes that ended."""
        if not 0 <= n <= BUFFER:
            raise ValueError(f"one call takes 0 to {BUFFER:,} steps, got {n}")
        before = self.step
        env_state, state, log = _run(self.layout, self.env, self.setting, *self._begun(), n)
        self._states = env_state, state
        ended, returns, lengths = (np.asarray(x) for x in log)
        at = np.flatnonzero(ended[:n])
        return [EpisodeResult(before + int(i) + 1, float(returns[i]), int(lengths[i])) for i in at]

    def report(self) -> dict[str, float]:
        env_state, state = self._begun()
        means, tally = report(state.tally)
        self._states = env_state, state._replace(tally=tally)
        return {**means, **sight_told(self.layout, state)}

    def trouble(self) -> tuple[str, int] | None:
        return trouble_in(self._begun()[1].tally)

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        env_state, state = self._begun()
        return {**named_arrays("stream", state), **named_arrays("env", env_state)}, {}

    def restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> str:
        env_template, template = start_shapes(self.layout, self.env, self.setting)
        self._states = (
            from_named_arrays("env", env_template, arrays),
            from_named_arrays("stream", template, arrays),
        )
        return ""

    def _begun(self) -> tuple[Tree, StreamState]:
        if self._states is None:
            raise RuntimeError("call begin() or restore(...) first")
        return self._states


def start_stream(layout: Layout, env: CompiledEnv, setting: Setting) -> tuple[Tree, StreamState]:
    env_state, obs = env.init(jax.random.fold_in(setting.key, 2**31 - 2))
    return env_state, begin(setting, layout, obs)


class Log(NamedTuple):
    ended: jax.Array
    returns: jax.Array
    lengths: jax.Array


def run_stream(
    layout: Layout, env: CompiledEnv, setting: Setting, env_state: Tree, state: StreamState, n: Any
) -> tuple[Tree, StreamState, Log]:
    """n steps of environment and agent, n being no part of the program: any n gives the same numbers."""

    def one(i: Any, carry: tuple[Tree, StreamState, Log]) -> tuple[Tree, StreamState, Log]:
        env_state, state, log = carry
        key = step_keys(setting, state.agent.step).env
        env_state, timestep = env.step(env_state, state.choice.action, key)
        state, finished = advance(setting, layout, state, timestep)
        return env_state, state, Log(*(many.at[i].set(new) for many, new in zip(log, finished, strict=True)))

    log = Log(jnp.zeros(BUFFER, bool), jnp.zeros(BUFFER, jnp.float32), jnp.zeros(BUFFER, jnp.int32))
    return jax.lax.fori_loop(0, n, one, (env_state, state, log))


# Compiled once for a layout and an environment; a seed, a learning rate or a number of steps is only an argument.
_start = jax.jit(start_stream, static_argnums=(0, 1))
start_shapes = _start.eval_shape  # traced once, where `jax.eval_shape` would trace at every save and restore
_run = jax.jit(run_stream, static_argnums=(0, 1), donate_argnums=(3, 4))
