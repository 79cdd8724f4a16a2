"""The values of a transition found together, for fleets whose steps are bound by the number of kernels.

QRC asks its networks for three numbers, each with its gradient: Q(s, a), max Q(s', .) and h(s, a). One after the other
they are three passes through convolutions that are far too small to fill a card. Here they are one, through encoders
that stand in arrays of three. The gradient of a dense layer is the outer product of what it was given and the gradient
by what it gave: that one is the gradient by a number added there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from headrace.agents import Online, Qrc
from headrace.definition.evaluate import Value, Values, evaluate, next_value, value_modules
from headrace.definition.networks import Layout, Modules, by_action, dense, dense_in, encode, headed
from headrace.definition.transition import StepContext, Transition


def evaluate_together(
    rule: Any, layout: Layout, params: Modules, state: Any, t: Transition, context: StepContext
) -> Values:
    """What `evaluate` gives."""
    if type(rule) is not Qrc or not isinstance(rule.target, Online):
        return evaluate(rule, layout, params, state, t, context)
    networks = [value_modules(params), value_modules(params), value_modules(params, "h_")]
    encoders = jax.tree.map(lambda *xs: jnp.stack(xs), *(network["encoder"] for network in networks))
    projections, heads = ([network[name][0] for network in networks] for name in ("projection", "head"))
    seen = jnp.stack([t.obs, t.next_obs, t.obs])

    def numbers(encoders: Any, at_projection: jax.Array, at_head: jax.Array) -> tuple[jax.Array, Any]:
        """The three numbers, once something is added to what the projections and the heads give."""
        z = jax.vmap(lambda layers, obs: encode(layout.network, layers, obs).reshape(-1))(encoders, seen)
        projected = [dense_in(layout.network, layer, x) for layer, x in zip(projections, z, strict=True)]
        hidden = jax.vmap(partial(headed, layout.head))(jnp.stack(projected) + at_projection)
        q = jnp.stack([dense(head, x) for head, x in zip(heads, hidden, strict=True)]) + at_head
        next_q = by_action(layout, q[1])
        return jnp.stack([q[0, t.action], next_value(rule, next_q, context), q[2, t.action]]), (z, hidden, next_q)

    nothing = (jnp.zeros((3, layer["w"].shape[1]), jnp.float32) for layer in (projections[0], heads[0]))
    found, pull_back, (z, hidden, next_q) = jax.vjp(numbers, encoders, *nothing, has_aux=True)
    moved, at_projection, at_head = pull_back(jnp.ones_like(found))

    def value(i: int) -> Value:
        projection = {"w": jnp.outer(z[i], at_projection[i]), "b": at_projection[i]}
        head = {"w": jnp.outer(hidden[i], at_head[i])}
        encoder = jax.tree.map(lambda x: x[i], moved)
        return Value(found[i], {"encoder": encoder, "projection": [projection], "head": [head]})

    return Values(value(0), value(1), next_q, h=value(2))
