"""How far Q and the latent depend on what is seen: a blind agent's losses look calm, its sight does not.

A stream keeps one observation in 125 steps, the last eight of them; at a log point the parameters of then are evaluated
at all of them. Where all of them are equal nothing can be measured, and every measure is NaN.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from headrace.agents import ACTOR
from headrace.definition.networks import Layout, Modules, dense, encode, headed, q_of

STATES = 8  # observations that are kept
EVERY = 125  # steps from one to the next; eight of them span the interval between two log points


def none_seen(layout: Layout) -> jax.Array:
    return jnp.zeros((STATES, *layout.observation_shape), jnp.float32)


def seen_with(seen: jax.Array, obs: jax.Array, step: jax.Array) -> jax.Array:
    """The observations kept once `obs` is acted upon at a step; a place beyond the last stands for no place."""
    place = jnp.where(step % EVERY == 0, step // EVERY % STATES, STATES)
    return seen.at[place].set(obs, mode="drop", unique_indices=True)


def sight(layout: Layout, params: Modules, seen: jax.Array, steps: jax.Array) -> dict[str, jax.Array]:
    """The measures of a stream that has taken so many steps. One observation is evaluated after another: a fleet then
    needs no more room than for acting."""
    q, z, hidden = jax.lax.map(partial(_evaluated, layout, params), seen)
    held = jnp.arange(STATES) < (steps + EVERY - 1) // EVERY
    differ = jnp.any(held.reshape(-1, *[1] * (seen.ndim - 1)) & (seen != seen[0]))
    valid = jnp.arange(layout.n_actions) < layout.actions
    found = measures(q, z, hidden, held, valid)
    if f"{ACTOR}head" in params:  # V(s) is not spread over actions
        found["sight"] = jnp.float32(jnp.nan)
    return {name: jnp.where(differ, value, jnp.nan) for name, value in found.items()}


def _evaluated(layout: Layout, params: Modules, obs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Q(s, .), the latent, and the units between projection and head."""
    z = encode(layout.network, params["encoder"], obs).reshape(-1)
    projected = dense(params["projection"][0], z)
    return q_of(layout, params["head"][0], projected), z, headed(layout.head, projected)


def measures(q: jax.Array, z: jax.Array, hidden: jax.Array, held: jax.Array, valid: jax.Array) -> dict[str, jax.Array]:
    """Of Q (states, actions), latents and hidden units (states, units), of which the states that are `held` and the
    actions that are `valid` count.

    sight: how far Q differs between states, as a share of how far it differs between actions.
    latent_spread: the share of the latents' mean square that is variance between states.
    dead_units: the share of all units that are on the flat side of their activation at every state.
    """
    q = jnp.where(valid, q, 0)
    over_states = jnp.sqrt(jnp.sum(_variance(q, held)) / jnp.sum(valid))
    centred = jnp.where(valid, q - jnp.sum(q, axis=1, keepdims=True) / jnp.sum(valid), 0)
    over_actions = _mean(jnp.sqrt(jnp.sum(centred**2, axis=1) / jnp.sum(valid)), held)
    flat = jnp.where(held[:, None], jnp.concatenate([z, hidden], axis=1) <= 0, True)
    return {
        "sight": jnp.where(over_states > 0, over_states / over_actions, 0),
        "latent_spread": jnp.sum(_variance(z, held)) / _mean(jnp.sum(z**2, axis=1), held),
        "dead_units": jnp.mean(jnp.all(flat, axis=0)),
    }


def _mean(x: jax.Array, held: jax.Array) -> jax.Array:
    """Over the states that are held."""
    return jnp.sum(jnp.where(held.reshape(-1, *[1] * (x.ndim - 1)), x, 0), axis=0) / jnp.sum(held)


def _variance(x: jax.Array, held: jax.Array) -> jax.Array:
    return _mean((x - _mean(x, held)) ** 2, held)
