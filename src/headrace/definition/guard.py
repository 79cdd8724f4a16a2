"""The guard: a gradient's length is bounded before traces, histories and updates see it."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp

from headrace.agents import Clip, Unguarded
from headrace.definition.networks import Modules
from headrace.definition.trees import norm2, scale


@singledispatch
def guarded(guard: Any, gradient: Modules) -> tuple[Modules, jax.Array]:
    """The gradient that is learnt from, and whether the guard changed it."""
    raise TypeError(f"no guard {guard!r}")


@guarded.register
def _(guard: Unguarded, gradient: Modules) -> tuple[Modules, jax.Array]:
    return gradient, jnp.bool_(False)


@guarded.register
def _(guard: Clip, gradient: Modules) -> tuple[Modules, jax.Array]:
    return shortened(guard.norm, gradient)


def shortened(norm: Any, vector: Modules) -> tuple[Modules, jax.Array]:
    """g <- g min(1, norm / ||g||): as it is, to the bit, where it is not too long; and whether it was."""
    length = norm2(vector)
    acts = length > norm
    return scale(jnp.where(acts, norm / jnp.where(acts, length, 1), 1), vector), acts
