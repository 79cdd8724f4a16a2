"""Stream SARSA(lambda), expected or not: Stream Q with another value of s', and a trace that lasts longer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from headrace.agents import ExpectedSarsa, Sarsa
from headrace.definition.evaluate import next_value
from headrace.definition.networks import ByAction
from headrace.definition.policies import epsilon_greedy, greedy_action
from headrace.definition.td import cuts_trace, ends
from headrace.definition.transition import StepContext, Transition


@next_value.register
def _(rule: Sarsa, next_q: ByAction, context: StepContext) -> jax.Array:
    """Q(s', a'), where a' is the action that the next step's random numbers choose by the values of now.

    It is the action that will be taken, unless this very update makes another one the best.
    """
    return next_q.q[epsilon_greedy(next_q, context.epsilon, context.draws.ahead)]


@next_value.register
def _(rule: ExpectedSarsa, next_q: ByAction, context: StepContext) -> jax.Array:
    """sum_a pi(a|s') Q(s', a), where pi is epsilon-greedy."""
    best = jnp.arange(next_q.q.size) == greedy_action(next_q)
    policy = context.epsilon * next_q.valid / jnp.sum(next_q.valid) + (1 - context.epsilon) * best
    return jnp.sum(policy * next_q.q)


@cuts_trace.register(Sarsa | ExpectedSarsa)
def _(rule: Sarsa | ExpectedSarsa, t: Transition) -> jax.Array:
    """At the end of an episode alone: the policy that is learnt is the one that explores."""
    return ends(t)
