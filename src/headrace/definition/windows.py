"""The few transitions that an auxiliary objective looks back on."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import Curl, Episode, ReleasedRing
from headrace.definition.transition import Transition


class WindowState(NamedTuple):
    observations: jax.Array  # oldest first for `Episode`, by slot for `ReleasedRing`
    actions: jax.Array
    held: jax.Array  # transitions taken in so far, up to what matters


class Window(NamedTuple):
    """What the objective may use at this step, once `ready`."""

    observations: jax.Array
    actions: jax.Array
    ready: jax.Array


def _empty(size: int, transition: Transition) -> WindowState:
    observations = jnp.zeros((size, *jnp.shape(transition.obs)), jnp.float32)
    action = jnp.asarray(transition.action)
    return WindowState(observations, jnp.zeros((size, *action.shape), action.dtype), jnp.int32(0))


def emptied(state: WindowState) -> WindowState:
    return state._replace(held=jnp.zeros_like(state.held))


@singledispatch
def init_window(objective: Any, transition: Transition) -> WindowState:
    """An empty window; `transition` is an example that gives shapes."""
    return _empty(objective.window.slots(objective.horizon), transition)


@init_window.register
def _(objective: Curl, transition: Transition) -> WindowState:
    return _empty(objective.batch, transition)


@singledispatch
def push(objective: Any, state: WindowState, transition: Transition) -> tuple[Window, WindowState]:
    """Takes the transition in; gives what there is to see now, and the window for the next step."""
    return _pushed(objective.window, state, transition)


@push.register
def _(objective: Curl, state: WindowState, transition: Transition) -> tuple[Window, WindowState]:
    """The last observations, whichever episode they belong to: they only serve as each other's negatives."""
    state = _appended(state, transition)
    return Window(state.observations, state.actions, state.held >= objective.batch), state


def _appended(state: WindowState, transition: Transition) -> WindowState:
    size = state.actions.shape[0]
    observations = jnp.concatenate([state.observations[1:], transition.obs[None]])
    actions = jnp.concatenate([state.actions[1:], transition.action[None]])
    return WindowState(observations, actions, jnp.minimum(state.held + 1, size))


@singledispatch
def _pushed(window: Any, state: WindowState, transition: Transition) -> tuple[Window, WindowState]:
    raise TypeError(f"no window {window!r}")


@_pushed.register
def _(window: Episode, state: WindowState, transition: Transition) -> tuple[Window, WindowState]:
    """s_{t-K+1} .. s_{t+1} and a_{t-K+1} .. a_t of one episode, in order; s_{t+1} is the true successor."""
    state = _appended(state, transition)
    observations = jnp.concatenate([state.observations, transition.next_obs[None]])
    seen = Window(observations, state.actions, state.held >= state.actions.shape[0])
    return seen, state._replace(held=jnp.where(transition.last, 0, state.held))


@_pushed.register
def _(window: ReleasedRing, state: WindowState, transition: Transition) -> tuple[Window, WindowState]:
    """Seen when all slots but the last were written in this lap, so that the last image is of the lap before."""
    slots = state.actions.shape[0]
    at = state.held % slots
    observations = state.observations.at[at].set(transition.obs)
    actions = state.actions.at[at].set(transition.action)
    ready = (at == slots - 2) & (state.held >= slots)
    count = jnp.where(state.held + 1 >= 2 * slots, slots, state.held + 1)
    return Window(observations, actions[:-1], ready), WindowState(observations, actions, count)
