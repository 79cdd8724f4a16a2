"""The reference engine as an object: an agent on one stream, stepped from Python or compiled with its environment."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.engines.reference.agent import act, draw_step, epsilon
from headrace.engines.reference.networks import Layout, Modules, encode, layout_of
from headrace.engines.reference.stream import (
    Setting,
    StreamState,
    advance,
    begin,
    make_setting,
    quantities,
    step_keys,
)
from headrace.engines.reference.trees import Tree
from headrace.envs.base import CompiledEnv, EnvSpec, TimeStep
from headrace.errors import CheckpointDamaged, EnvironmentFault
from headrace.normalize import Moments, standardised
from headrace.stream import Episode

BUFFER = 1000  # the most steps that one call of a compiled stream may take

_begin = jax.jit(begin, static_argnums=1)
_advance = jax.jit(advance, static_argnums=1, donate_argnums=2)


class ReferenceEngine:
    """One agent on one stream: `begin`, then `action` and `learn` in turn. Each transition is seen once."""

    name = "reference"

    def __init__(self, agent: Agent, spec: EnvSpec, *, seed: int, steps: int) -> None:
        self.agent, self.spec = agent, spec
        self.layout = layout_of(agent, spec.observation_shape, spec.n_actions)
        self.setting = make_setting(agent, seed, steps)
        self.state: StreamState | None = None

    @property
    def step(self) -> int:
        """Transitions learnt from so far."""
        return int(self._begun().agent.step)

    @property
    def action(self) -> int:
        """The action to take now."""
        return int(self._begun().choice.action)

    def begin(self, obs: np.ndarray) -> None:
        """Starts with the environment's first observation."""
        self.state = _begin(self.setting, self.layout, self._image(obs, "first observation"))

    def learn(self, timestep: TimeStep) -> Episode | None:
        """Learns from what `action` led to; returns the episode if it ended there."""
        seen = TimeStep(
            obs=self._image(timestep.obs, "observation"),
            successor=self._image(timestep.successor, "successor"),
            reward=self._finite(timestep.reward, "reward"),
            terminated=np.bool_(timestep.terminated),
            truncated=np.bool_(timestep.truncated),
            last=np.bool_(timestep.last),
        )
        self.state, finished = _advance(self.setting, self.layout, self._begun(), seen)
        if not timestep.last:
            return None
        return Episode(self.step, float(finished.episode_return), int(finished.episode_length))

    def report(self) -> dict[str, float]:
        """Means over the steps since the last report; those of the auxiliary over the steps on which it learnt."""
        means, self.state = _report(self.agent, self.setting, self._begun())
        return means

    def trouble(self) -> tuple[str, int] | None:
        """The first quantity that was not finite and the step it happened at, if any."""
        return _trouble(self._begun())

    def save(self) -> dict[str, np.ndarray]:
        """Everything the stream knows, as named arrays."""
        return named_arrays("stream", self._begun())

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        template = jax.eval_shape(functools.partial(begin, self.setting, self.layout), self._blank())
        self.state = from_named_arrays("stream", template, arrays)

    def _begun(self) -> StreamState:
        if self.state is None:
            raise RuntimeError("begin(first_observation) comes before anything else")
        return self.state

    def _blank(self) -> np.ndarray:
        return np.zeros(self.layout.observation_shape, np.float32)

    def _image(self, obs: Any, what: str) -> np.ndarray:
        array = np.asarray(obs, np.float32)
        if array.shape != self.layout.observation_shape:
            raise EnvironmentFault(
                f"{self.spec.name} gave a {what} of shape {array.shape} at step {self._step_or_0():,}; "
                f"it declares {self.layout.observation_shape}"
            )
        return self._finite(array, what)

    def _finite(self, value: Any, what: str) -> Any:
        array = np.asarray(value, np.float32)
        if not np.isfinite(array).all():
            bad = array.reshape(-1)[~np.isfinite(array.reshape(-1))][0]
            raise EnvironmentFault(
                f"{self.spec.name} gave a {what} with {bad} in it at step {self._step_or_0():,}: nothing can be learnt "
                "from it. The run's last checkpoint is intact; mend the environment and run the same command again."
            )
        return array

    def _step_or_0(self) -> int:
        return 0 if self.state is None else self.step


class CompiledStream:
    """An agent and a compiled environment in one program; the host hears of finished episodes only."""

    def __init__(self, agent: Agent, env: CompiledEnv, *, seed: int, steps: int) -> None:
        self.agent, self.env = agent, env
        self.layout = layout_of(agent, env.spec.observation_shape, env.spec.n_actions)
        self.setting = make_setting(agent, seed, steps)
        self._start = jax.jit(functools.partial(_start, self.layout, env))
        self._run = jax.jit(functools.partial(_run, self.layout, env), donate_argnums=(1, 2))
        self._states: tuple[Tree, StreamState] | None = None

    @property
    def step(self) -> int:
        return int(self._begun()[1].agent.step)

    def begin(self) -> None:
        self._states = self._start(self.setting)

    def run(self, n: int) -> list[Episode]:
        """Takes n <= 1,000 steps; returns the episodes that ended."""
        before = self.step
        env_state, state, log = self._run(self.setting, *self._begun(), n)
        self._states = env_state, state
        ended, returns, lengths = (np.asarray(x) for x in log)
        at = np.flatnonzero(ended[:n])
        return [Episode(before + int(i) + 1, float(returns[i]), int(lengths[i])) for i in at]

    def report(self) -> dict[str, float]:
        env_state, state = self._begun()
        means, state = _report(self.agent, self.setting, state)
        self._states = env_state, state
        return means

    def trouble(self) -> tuple[str, int] | None:
        return _trouble(self._begun()[1])

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        env_state, state = self._begun()
        return {**named_arrays("stream", state), **named_arrays("env", env_state)}, {}

    def restore(self, arrays: dict[str, np.ndarray], state: dict[str, Any]) -> None:
        env_template, template = jax.eval_shape(functools.partial(_start, self.layout, self.env), self.setting)
        self._states = (
            from_named_arrays("env", env_template, arrays),
            from_named_arrays("stream", template, arrays),
        )

    def _begun(self) -> tuple[Tree, StreamState]:
        if self._states is None:
            raise RuntimeError("begin() or restore(...) comes before anything else")
        return self._states


def _start(layout: Layout, env: CompiledEnv, setting: Setting) -> tuple[Tree, StreamState]:
    env_state, obs = env.init(jax.random.fold_in(setting.key, 2**31 - 2))
    return env_state, begin(setting, layout, obs)


class Log(NamedTuple):
    ended: jax.Array
    returns: jax.Array
    lengths: jax.Array


def _run(
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


class FrozenPolicy:
    """Parameters and normaliser of a saved stream, neither of which changes any more."""

    def __init__(self, agent: Agent, spec: EnvSpec, arrays: dict[str, np.ndarray], *, eps: float, seed: int) -> None:
        engine = ReferenceEngine(agent, spec, seed=seed, steps=1)
        engine.restore(arrays)
        state = engine._begun()
        self.layout, self.setting, self.eps = engine.layout, engine.setting, eps
        self.params, self.scale = state.agent.params, state.obs_scale
        self._taken = 0

    def __call__(self, obs: np.ndarray) -> int:
        self._taken += 1
        return int(_frozen_action(self.setting, self.layout, self.params, self.scale, obs, self.eps, self._taken))

    def latent(self, obs: np.ndarray) -> np.ndarray:
        """The encoder's output for an observation, flattened."""
        return np.asarray(_frozen_latent(self.layout, self.params, self.scale, obs))


@functools.partial(jax.jit, static_argnums=1)
def _frozen_action(
    setting: Setting, layout: Layout, params: Modules, scale: Moments, obs: Any, eps: Any, count: Any
) -> jax.Array:
    draws = draw_step(setting.agent, step_keys(setting, count).agent)
    return act(layout, params, standardised(scale, obs, jnp), eps, draws).action


@functools.partial(jax.jit, static_argnums=0)
def _frozen_latent(layout: Layout, params: Modules, scale: Moments, obs: Any) -> jax.Array:
    return encode(layout.network, params["encoder"], standardised(scale, obs, jnp)).reshape(-1)


def _report(agent: Agent, setting: Setting, state: StreamState) -> tuple[dict[str, float], StreamState]:
    tally = jax.device_get(state.tally)
    means = {name: float(total) / max(int(tally.steps), 1) for name, total in sorted(tally.sums.items())}
    active = int(tally.active_steps)
    beside = {k: float(total) / active if active else float("nan") for k, total in sorted(tally.aux_sums.items())}
    share = {"aux_active": active / max(int(tally.steps), 1)} if beside else {}
    eps = float(epsilon(agent.explore, state.agent.step, setting.total_steps))
    cleared = tally._replace(
        steps=np.int32(0),
        active_steps=np.int32(0),
        sums={k: np.float32(0) for k in tally.sums},
        aux_sums={k: np.float32(0) for k in tally.aux_sums},
    )
    return {"epsilon": eps, **means, **beside, **share}, state._replace(tally=jax.tree.map(jnp.asarray, cleared))


def _trouble(state: StreamState) -> tuple[str, int] | None:
    step = int(state.tally.bad_step)
    return None if step < 0 else (quantities(state.tally)[int(state.tally.bad_quantity)], step)


def _names(prefix: str, tree: Tree) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return ["/".join([prefix, *(_key_name(key) for key in path)]) for path, _ in paths]


def _key_name(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def named_arrays(prefix: str, tree: Tree) -> dict[str, np.ndarray]:
    """The tree's leaves, each under the path that leads to it."""
    leaves = jax.device_get(jax.tree.leaves(tree))
    return {name: np.asarray(leaf) for name, leaf in zip(_names(prefix, tree), leaves, strict=True)}


def from_named_arrays(prefix: str, template: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """A tree like the template, with the named arrays as its leaves."""
    leaves = []
    for name, like in zip(_names(prefix, template), jax.tree.leaves(template), strict=True):
        if name not in arrays:
            raise CheckpointDamaged(f"it has no array {name}")
        if arrays[name].shape != like.shape or arrays[name].dtype != like.dtype:
            raise CheckpointDamaged(
                f"{name} is {arrays[name].dtype}{arrays[name].shape} in it, this agent needs {like.dtype}{like.shape}"
            )
        leaves.append(jnp.asarray(arrays[name]))
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
