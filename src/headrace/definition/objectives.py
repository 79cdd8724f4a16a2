"""Auxiliary losses: SPR and CURL, for one window of observations."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp

from headrace.agents import Curl, Spr
from headrace.definition.augment import View, augment
from headrace.definition.networks import Layout, Modules, action_vectors, dense, dense_in, encode, product, unroll
from headrace.definition.windows import Window

SHORTEST = 1e-3  # a vector shorter than this counts as this long, as in the original SPR: no gradient explodes near 0


def cosine_similarity(a: jax.Array, b: jax.Array) -> jax.Array:
    """The cosine of each row of `a` with the same row of `b`; 0, with a finite gradient, at zero norm."""
    per_length = [jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, -1), SHORTEST**2)) for x in (a, b)]
    return jnp.sum(a * b, -1) * per_length[0] * per_length[1]


@singledispatch
def aux_loss(
    objective: Any, layout: Layout, modules: Modules, target: Modules, window: Window, view: View
) -> jax.Array:
    """The loss of the objective on the window, a function of `modules` alone: the target takes no gradient.

    Args:
      modules: those that `objective.modules()` names.
      target: those that `objective.target_modules()` names, as the target has them.
      window: the last observations, one more than actions; oldest first.
      view: as many random views as `objective.views()` says.
    """
    raise TypeError(f"no auxiliary objective {objective!r}")


@aux_loss.register
def _(objective: Spr, layout: Layout, modules: Modules, target: Modules, window: Window, view: View) -> jax.Array:
    """- sum_k cos(q(P(z_k)), P'(f'(s_k))), where z_k is imagined from z_0 = f(s_0) along the actions taken."""
    network, name = layout.network, objective.projection.module
    images = jax.vmap(augment, (None, 0, 0))(objective.augment, window.observations, view)
    actions = action_vectors(layout, window.actions)
    imagined = unroll(network, modules["dynamics"], encode(network, modules["encoder"], images[0]), actions)
    seen = jax.vmap(lambda image: encode(network, target["encoder"], image))(images[1:])
    seen = jax.lax.stop_gradient(rows_of(seen))
    projected = dense_in(network, modules[name][0], rows_of(imagined))
    truth = dense_in(network, target[name][0], seen)
    guess = dense_in(network, modules["predictor"][0], projected)
    return objective.reduce.of(-cosine_similarity(guess, jax.lax.stop_gradient(truth)))


def rows_of(latents: jax.Array) -> jax.Array:
    return latents.reshape(latents.shape[0], -1)


@aux_loss.register
def _(objective: Curl, layout: Layout, modules: Modules, target: Modules, window: Window, view: View) -> jax.Array:
    """Cross-entropy of finding, by z_q^T W z_k, the other view of each observation among all of them."""
    half = jax.tree.map(lambda x: x.reshape(2, objective.batch, *x.shape[1:]), view)
    views = jax.vmap(jax.vmap(augment, (None, 0, 0)), (None, None, 0))(objective.augment, window.observations, half)

    def embed(source: Modules, images: jax.Array) -> jax.Array:
        latents = jax.vmap(lambda image: encode(layout.network, source["encoder"], image).reshape(-1))(images)
        return dense(source["curl_projection"][0], latents)

    query, key = embed(modules, views[0]), jax.lax.stop_gradient(embed(target, views[1]))
    logits = product(product(query, modules["curl_bilinear"][0]["w"]), key.T)
    return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(logits, axis=-1)))
