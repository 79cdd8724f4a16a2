"""What the value-learning rules share. An update is what is added to the parameters.

A rule turns the values of a transition (`evaluate`) into updates; it calls no network. Each has a file in `rules/`. Its
state is a NamedTuple: a field `target` holds the target network, fields whose names end in `trace` are zero again where
an episode is abandoned (`without_traces`). At every other end the rule zeroes them itself, by `cuts_trace`.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Rule
from headrace.definition.evaluate import Value, Values, value_modules
from headrace.definition.networks import Modules
from headrace.definition.targets import follow
from headrace.definition.transition import StepContext, Transition
from headrace.definition.trees import Tree, dot, norm2, zeros


class TdStep(NamedTuple):
    """What a rule makes of one transition."""

    updates: Modules
    state: Tree
    direction: Modules  # along the update of the value modules, of either sign: the trace, the gradient, or the update
    metrics: dict[str, jax.Array]


@singledispatch
def init_td(rule: Any, params: Modules, transition: Transition) -> Tree:
    """The rule's state before the first step; `transition` is an example that gives shapes."""
    raise TypeError(f"no value-learning rule for {rule!r}")


@singledispatch
def replay(rule: Any, state: Any, t: Transition, draw: jax.Array) -> tuple[Transition, Any]:
    """The transition to learn from: the present one, unless the rule has a memory. `draw` is uniform in [0, 1)."""
    return t, state


@singledispatch
def update_td(rule: Any, values: Values, params: Modules, state: Any, t: Transition, context: StepContext) -> TdStep:
    """The rule's update for one transition.

    Args:
      values: Q and whatever else the rule learns from, with gradients, under `params`.
      params: the parameters of now.
      state: what the rule remembers: traces, its target network.
      context: step, epsilon and random numbers.

    Returns:
      The update of the modules that it moves, the state after the step, and what there is to report.
    """
    raise TypeError(f"no value-learning rule for {rule!r}")


def follow_td(rule: Rule, state: Any, params: Modules, step: jax.Array) -> Any:
    """The rule's state once the parameters have moved: its target network, where it has one, follows them."""
    if not hasattr(state, "target"):
        return state
    return state._replace(target=follow(rule.target, state.target, value_modules(params), step))


def td_error(q_tm1: Any, r_t: Any, discount_t: Any, v_t: Any) -> Any:
    """The temporal-difference error: delta = r + gamma v(s') - q(s, a).

    Args:
      q_tm1: Q(s, a) of the action taken.
      r_t: the reward that followed.
      discount_t: gamma, or 0 where the transition is terminal.
      v_t: the value of the state reached: max_a Q(s', a), or an expectation over a.
    """
    return r_t + discount_t * v_t - q_tm1


def discount(gamma: Any, transition: Transition) -> jax.Array:
    """gamma, or 0 where the transition is terminal (on Atari a lost life too); truncation keeps the bootstrap."""
    return gamma * (1 - transition.terminated)


@singledispatch
def cuts_trace(rule: Any, transition: Transition) -> jax.Array:
    """Whether traces are zero after this step: it was terminal, truncated, or its action not greedy."""
    return transition.terminated | transition.truncated | ~transition.greedy


def ends(transition: Transition) -> jax.Array:
    """Whether it was terminal or truncated: where the traces of a rule end that learns the policy that explores."""
    return transition.terminated | transition.truncated


def decayed(rule: Any, trace: Tree, new: Tree) -> Tree:
    """gamma lambda z + new."""
    keep = rule.gamma * rule.lamda
    return jax.tree.map(lambda z, x: keep * z + x, trace, new)


def without_traces(state: Any) -> Any:
    """The rule's state with its traces zero, as after the end of an episode; target and memory stay."""
    return state._replace(**{name: zeros(getattr(state, name)) for name in state._fields if name.endswith("trace")})


def overshoot(rule: Any, lamda: Any, gradient: Modules) -> jax.Array:
    """alpha ||grad Q||^2 / (1 - gamma lambda), near the paper's xi: above 1 a plain step passes its aim."""
    return rule.lr * dot(gradient, gradient) / (1 - rule.gamma * lamda)


def td_metrics(delta: Any, q: Value, updates: Modules) -> dict[str, jax.Array]:
    """What every rule reports of a step."""
    return {
        "td_error": jnp.abs(delta),
        "q": q.value,
        "q_gradient_norm": norm2(q.gradient),
        "td_update_norm": norm2(value_modules(updates)),
    }
