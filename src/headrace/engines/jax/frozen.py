"""An agent that no longer learns: parameters and normaliser of a saved stream, neither of which changes any more."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.definition.networks import Layout, Modules, encode, init_params, layout_in
from headrace.definition.step import act, draw_step
from headrace.engines.jax.arrays import from_named_arrays
from headrace.engines.jax.stream import Setting, make_setting, step_keys
from headrace.envs.base import EnvSpec
from headrace.normalize import Moments, empty_moments, limited, standardised


class FrozenPolicy:
    """Parameters and normaliser of a saved stream, neither of which changes any more."""

    def __init__(self, agent: Agent, spec: EnvSpec, arrays: dict[str, np.ndarray], *, eps: float, seed: int) -> None:
        self.layout = layout_in(agent, spec)
        self.setting, self.eps = make_setting(agent, seed, 1), eps
        template = jax.eval_shape(
            lambda key: (init_params(agent, self.layout, key), empty_moments(self.layout.frame_shape, jnp)),
            self.setting.key,
        )
        self.params = from_named_arrays("stream/agent/params", template[0], arrays)
        self.scale = _repeated(from_named_arrays("stream/obs_scale", template[1], arrays), self.layout.frames)
        self._taken = 0

    def __call__(self, obs: np.ndarray) -> Any:
        self._taken += 1
        action = _frozen_action(self.setting, self.layout, self.params, self.scale, obs, self.eps, self._taken)
        return np.asarray(action) if self.layout.box else int(action)

    def latent(self, obs: np.ndarray) -> np.ndarray:
        """The encoder's output for an observation, flattened."""
        return np.asarray(_frozen_latent(self.setting, self.layout, self.params, self.scale, obs))


def _repeated(scale: Moments, frames: int) -> Moments:
    """The scale of a stack of raw frames: frozen, it is the same for each of them."""
    return Moments(scale.count, *(jnp.concatenate([x] * frames, axis=-1) for x in scale[1:]))


def _seen(agent: Agent, scale: Moments, obs: Any) -> jax.Array:
    return limited(agent.observations, standardised(scale, obs, jnp), jnp)


@functools.partial(jax.jit, static_argnums=1)
def _frozen_action(
    setting: Setting, layout: Layout, params: Modules, scale: Moments, obs: Any, eps: Any, count: Any
) -> jax.Array:
    key = step_keys(setting, count).agent
    draws = draw_step(setting.agent, layout, key, key)  # acting looks at no later one
    draws = draws._replace(policy=draws.policy.at[:, 0].set(0.5))  # what a policy has as its likeliest
    return act(setting.agent, layout, params, _seen(setting.agent, scale, obs), eps, draws).action


@functools.partial(jax.jit, static_argnums=1)
def _frozen_latent(setting: Setting, layout: Layout, params: Modules, scale: Moments, obs: Any) -> jax.Array:
    return encode(layout.network, params["encoder"], _seen(setting.agent, scale, obs)).reshape(-1)
