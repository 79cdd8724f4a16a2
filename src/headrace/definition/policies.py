"""What chooses actions, and how likely each is, made of the numbers that a network gives for a state."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.definition.networks import ByAction, Layout
from headrace.definition.transition import ActionDraws

NEVER = -1e30  # the preference for what is no action: finite, so that 0 times its logarithm is 0
LEAST = 2.0**-24  # nearer to -1 than this, no number is that float32 has


class Softmax(NamedTuple):
    """pi(a|s) proportional to exp of a preference."""

    preference: jax.Array
    valid: jax.Array


class Gaussian(NamedTuple):
    """A normal distribution for each number of an action, independent of the others."""

    mean: jax.Array
    scale: jax.Array
    valid: jax.Array


def policy_of(layout: Layout, outputs: list[jax.Array]) -> Softmax | Gaussian:
    """The policy that an actor's outputs stand for. A scale is the softplus of its output."""
    valid = jnp.arange(layout.n_actions) < layout.actions
    if layout.box:
        return Gaussian(outputs[0], jax.nn.softplus(outputs[1]), valid)
    return Softmax(jnp.where(valid, outputs[0], NEVER), valid)


@singledispatch
def log_prob(policy: Any, action: jax.Array) -> jax.Array:
    """log pi(a|s), in a box that of the density."""
    raise TypeError(f"no policy {policy!r}")


@log_prob.register
def _(policy: Softmax, action: jax.Array) -> jax.Array:
    return jax.nn.log_softmax(policy.preference)[action]


@log_prob.register
def _(policy: Gaussian, action: jax.Array) -> jax.Array:
    away = (action - policy.mean) / policy.scale
    return _over(policy, -0.5 * away**2 - jnp.log(policy.scale) - 0.5 * jnp.log(2 * jnp.pi))


@singledispatch
def entropy(policy: Any) -> jax.Array:
    """- sum_a pi(a|s) log pi(a|s), or the integral."""
    raise TypeError(f"no policy {policy!r}")


@entropy.register
def _(policy: Softmax) -> jax.Array:
    log_pi = jax.nn.log_softmax(policy.preference)
    return -_over(policy, jnp.exp(log_pi) * log_pi)


@entropy.register
def _(policy: Gaussian) -> jax.Array:
    return _over(policy, jnp.log(policy.scale) + 0.5 * jnp.log(2 * jnp.pi * jnp.e))


def _over(policy: Softmax | Gaussian, values: jax.Array) -> jax.Array:
    return jnp.sum(jnp.where(policy.valid, values, 0))


def preferences(policy: Softmax, uniform: jax.Array) -> ByAction:
    """Preferences to which Gumbel's noise is added: the highest is action a with probability pi(a|s)."""
    noise = -jnp.log(-jnp.log(jnp.maximum(uniform, LEAST)))
    return ByAction(jnp.where(policy.valid, policy.preference + noise, 0), policy.valid)


def sample(policy: Gaussian, uniform: jax.Array) -> jax.Array:
    """An action; the mean where each number is 1/2."""
    normal = jnp.sqrt(2.0) * jax.scipy.special.erfinv(jnp.maximum(2 * uniform - 1, LEAST - 1))
    return jnp.where(policy.valid, policy.mean + policy.scale * normal, 0)


def greedy_action(q: ByAction) -> jax.Array:
    """The first action of the highest value."""
    return jnp.argmax(jnp.where(q.valid, q.q, -jnp.inf)).astype(jnp.int32)


def epsilon_greedy(q: ByAction, eps: jax.Array, draws: ActionDraws) -> jax.Array:
    """Any action with probability eps, else the best one."""
    count = jnp.sum(q.valid)
    any_action = jnp.minimum((draws.action * count).astype(jnp.int32), count - 1)
    return jnp.where(draws.explore < eps, any_action, greedy_action(q))
