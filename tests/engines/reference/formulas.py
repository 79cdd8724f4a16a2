"""What tests of formulas share: a network whose matrices count as large in them, and its experience."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Mlp
from headrace.engines.reference.networks import Layout
from headrace.engines.reference.transition import Transition
from tests.engines.reference.support import N_ACTIONS

NETWORK = Mlp((32,), 16)  # a projection of 512 weights, which counts as large here
STREAMS, STEPS = 2, 5


def matrix(seed: int, rows: int = 64, columns: int = 16) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (rows, columns))


def assert_near(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * max(1.0, float(jnp.abs(theirs).max())))


def experience(layout: Layout) -> list[Transition]:
    """Steps of both streams: an exploring one, an end and a truncation among them."""
    found = []
    for i in range(STEPS):
        key = jax.random.split(jax.random.key(100 + i), 4)
        obs, following = (jax.random.normal(k, (STREAMS, *layout.observation_shape)) for k in key[:2])
        flags = {
            "terminated": jnp.array([i == 3, False]), "truncated": jnp.array([False, i == 4]),
            "last": jnp.array([i == 3, i == 4]), "greedy": jnp.array([True, i != 2]),
        }  # fmt: skip
        action = jax.random.randint(key[2], (STREAMS,), 0, N_ACTIONS)
        found.append(Transition(obs, action, jax.random.normal(key[3], (STREAMS,)), following, **flags))
    return found
