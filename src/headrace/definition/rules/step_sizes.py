"""How far a rule with a trace goes: theta += size * delta * direction, the direction being the trace or P^-1 z."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Adaptive, Intentional, ObGd, Sgd, StreamQ
from headrace.definition.networks import Modules
from headrace.definition.trees import Tree, blend, dot, norm1, zeros

TINY = 1e-8  # of a root of a mean square, as published


class Sized(NamedTuple):
    """What becomes of an error and a trace."""

    size: jax.Array
    delta: jax.Array  # the TD error, where it is not too large
    direction: Modules
    state: Tree


class IntentionalState(NamedTuple):
    steps: jax.Array
    square: Modules  # v, the mean squared gradient
    spread: jax.Array  # sigma, the mean of sum g^2 / m
    error: jax.Array  # the mean of delta^2


@singledispatch
def init_step_size(step_size: Any, weights: Modules) -> Tree:
    """What the step size remembers, before the first step."""
    return ()


@init_step_size.register
def _(step_size: Adaptive, weights: Modules) -> Modules:
    return zeros(weights)


@init_step_size.register
def _(step_size: Intentional, weights: Modules) -> IntentionalState:
    return IntentionalState(jnp.int32(0), zeros(weights), jnp.float32(0), jnp.float32(0))


@singledispatch
def sized(step_size: Any, rule: StreamQ, delta: Any, gradient: Modules, trace: Modules, state: Any) -> Sized:
    """The step for a TD error, the gradient of Q(s, a), and the trace with that gradient in it."""
    raise TypeError(f"no step size {step_size!r}")


@sized.register
def _(step_size: ObGd, rule: StreamQ, delta: Any, gradient: Modules, trace: Modules, state: Any) -> Sized:
    """alpha / max(M, 1), where M = alpha kappa max(1, |delta|) ||z||_1 bounds the effective step."""
    bound = rule.lr * rule.kappa * jnp.maximum(1, jnp.abs(delta)) * norm1(trace)
    return Sized(rule.lr / jnp.maximum(bound, 1), delta, trace, state)


@sized.register
def _(step_size: Sgd, rule: StreamQ, delta: Any, gradient: Modules, trace: Modules, state: Any) -> Sized:
    return Sized(jnp.float32(rule.lr), delta, trace, state)


@sized.register
def _(step_size: Adaptive, rule: StreamQ, delta: Any, gradient: Modules, trace: Modules, state: Modules) -> Sized:
    """v <- gamma lambda v + (1 - gamma lambda) g^2;  theta += alpha clip(delta) z / (sqrt(v) + epsilon)."""
    square = blend(rule.gamma * rule.lamda, state, jax.tree.map(jnp.square, gradient))
    direction = jax.tree.map(lambda z, v: z / (jnp.sqrt(v) + step_size.epsilon), trace, square)
    return Sized(jnp.float32(rule.lr), jnp.clip(delta, -step_size.limit, step_size.limit), direction, square)


@sized.register
def _(
    step_size: Intentional, rule: StreamQ, delta: Any, gradient: Modules, trace: Modules, state: IntentionalState
) -> Sized:
    """alpha / sqrt(sigma sum z^2/m), along z / m, where m = sqrt(v) and sigma is the mean of sum g^2/m.

    All means begin at 0 and are divided by what they lack of their weight. The error is cut to `clip` times the root of
    its mean square, the present one included.
    """
    count, decay = state.steps + 1, rule.gamma * rule.lamda
    square = blend(step_size.beta, state.square, jax.tree.map(jnp.square, gradient))
    m = jax.tree.map(lambda v: jnp.sqrt(v / (1 - step_size.beta**count)) + TINY, square)
    over = lambda x: jax.tree.map(jnp.divide, x, m)  # noqa: E731
    spread = blend(decay, state.spread, dot(gradient, over(gradient)))
    error = blend(step_size.error_beta, state.error, delta * delta)
    largest = step_size.clip * jnp.sqrt(error / (1 - step_size.error_beta**count))
    length = jnp.sqrt(spread / (1 - decay**count) * dot(trace, over(trace)))
    after = IntentionalState(count, square, spread, error)
    return Sized(rule.lr / jnp.maximum(length, TINY), jnp.clip(delta, -largest, largest), over(trace), after)
