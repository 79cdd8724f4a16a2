"""How far a rule with a trace goes: theta += size * delta * direction, the direction being the trace or P^-1 z."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Adaptive, DecayedMaximum, Implicit, Intentional, ObGd, Sgd
from headrace.definition.evaluate import Value
from headrace.definition.networks import Modules
from headrace.definition.trees import Tree, blend, dot, norm1, zeros

TINY = 1e-8  # of a root of a mean square, as published


class Pace(NamedTuple):
    """What a step size is told by its rule."""

    lr: Any  # alpha
    kappa: Any
    decay: Any  # gamma lambda


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
def _(step_size: DecayedMaximum, weights: Modules) -> Modules:
    return zeros(weights)


@init_step_size.register
def _(step_size: Intentional, weights: Modules) -> IntentionalState:
    return IntentionalState(jnp.int32(0), zeros(weights), jnp.float32(0), jnp.float32(0))


@init_step_size.register
def _(step_size: Implicit, weights: Modules) -> IntentionalState:
    return IntentionalState(jnp.int32(0), jax.tree.map(jnp.ones_like, weights), jnp.float32(0), jnp.float32(0))


@singledispatch
def sized(step_size: Any, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: Any) -> Sized:
    """The step for a TD error, the gradient of Q(s, a), and the trace with that gradient in it.

    The error has a gradient of its own where the step size is `implicit`: gamma grad v(s') - grad Q(s, a).
    """
    raise TypeError(f"no step size {step_size!r}")


@sized.register
def _(step_size: ObGd, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: Any) -> Sized:
    """alpha / max(M, 1), where M = alpha kappa max(1, |delta|) ||z||_1 bounds the effective step."""
    bound = pace.lr * pace.kappa * jnp.maximum(1, jnp.abs(delta.value)) * norm1(trace)
    return Sized(pace.lr / jnp.maximum(bound, 1), delta.value, trace, state)


@sized.register
def _(step_size: Sgd, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: Any) -> Sized:
    return Sized(jnp.float32(pace.lr), delta.value, trace, state)


@sized.register
def _(step_size: Adaptive, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: Modules) -> Sized:
    """v <- gamma lambda v + (1 - gamma lambda) g^2;  theta += alpha clip(delta) z / (sqrt(v) + epsilon)."""
    square = blend(pace.decay, state, jax.tree.map(jnp.square, gradient))
    direction = jax.tree.map(lambda z, v: z / (jnp.sqrt(v) + step_size.epsilon), trace, square)
    return Sized(jnp.float32(pace.lr), jnp.clip(delta.value, -step_size.limit, step_size.limit), direction, square)


@sized.register
def _(step_size: DecayedMaximum, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: Modules) -> Sized:
    """v <- max(beta v, |delta z|);  theta += alpha delta z / (v + epsilon)."""
    largest = jax.tree.map(lambda v, z: jnp.maximum(step_size.beta * v, jnp.abs(delta.value * z)), state, trace)
    direction = jax.tree.map(lambda z, v: z / (v + step_size.epsilon), trace, largest)
    return Sized(jnp.float32(pace.lr), delta.value, direction, largest)


@sized.register
def _(
    step_size: Intentional, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: IntentionalState
) -> Sized:
    """alpha / sqrt(sigma sum z^2/m), along z / m, where m = sqrt(v) and sigma is the mean of sum g^2/m.

    All means begin at 0 and are divided by what they lack of their weight. The error is cut to `clip` times the root of
    its mean square, the present one included.
    """
    count = state.steps + 1
    square = blend(step_size.beta, state.square, jax.tree.map(jnp.square, gradient))
    m = jax.tree.map(lambda v: jnp.sqrt(v / (1 - step_size.beta**count)) + TINY, square)
    length, step = _intended(step_size, pace, delta, gradient, trace, state._replace(square=square), m)
    return step._replace(size=pace.lr / length)


@sized.register
def _(
    step_size: Implicit, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: IntentionalState
) -> Sized:
    """alpha / max(b + alpha c, kappa b), along z / m: b is the divisor of Intentional, c = - grad delta . z/m.

    m is of the gradients before this one, and v begins at 1.
    """
    m = jax.tree.map(lambda v: jnp.sqrt(v) + TINY, state.square)
    square = blend(step_size.beta, state.square, jax.tree.map(jnp.square, gradient))
    length, step = _intended(step_size, pace, delta, gradient, trace, state._replace(square=square), m)
    falls = -dot(delta.gradient, step.direction)
    return step._replace(size=pace.lr / jnp.maximum(length + pace.lr * falls, step_size.floor * length))


def _intended(
    step_size: Intentional, pace: Pace, delta: Value, gradient: Modules, trace: Modules, state: Any, m: Modules
) -> tuple[jax.Array, Sized]:
    """What alpha is divided by, so that a step in the metric m changes Q(s, a) by alpha delta; and the step."""
    count = state.steps + 1
    over = lambda x: jax.tree.map(jnp.divide, x, m)  # noqa: E731
    spread = blend(pace.decay, state.spread, dot(gradient, over(gradient)))
    error = blend(step_size.error_beta, state.error, delta.value * delta.value)
    largest = step_size.clip * jnp.sqrt(error / (1 - step_size.error_beta**count))
    length = jnp.sqrt(spread / (1 - pace.decay**count) * dot(trace, over(trace)))
    after = IntentionalState(count, state.square, spread, error)
    step = Sized(jnp.float32(0), jnp.clip(delta.value, -largest, largest), over(trace), after)
    return jnp.maximum(length, TINY), step
