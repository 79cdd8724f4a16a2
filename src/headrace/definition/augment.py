"""Random views of an image, and the random numbers they need."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import AsIs, Clipped, ShiftAndIntensity
from headrace.agents.aux import DRAWS_PER_VIEW


class View(NamedTuple):
    """What decides one random view: two uniform numbers for the shift, a normal number clipped to -2 .. 2."""

    shift: jax.Array
    intensity: jax.Array


def views(uniform: jax.Array) -> View:
    """Views made of uniform numbers, as many as fit."""
    u = uniform.reshape(-1, DRAWS_PER_VIEW)
    normal = jnp.sqrt(2.0) * jax.scipy.special.erfinv(2 * u[:, 2] - 1)
    return View(u[:, :2], jnp.clip(normal, -2, 2))


@singledispatch
def augment(augmentation: Any, image: jax.Array, view: View) -> jax.Array:
    """One image under one view, the same for all its channels."""
    raise TypeError(f"no augmentation {augmentation!r}")


@augment.register
def _(augmentation: AsIs, image: jax.Array, view: View) -> jax.Array:
    return image


@augment.register
def _(augmentation: ShiftAndIntensity, image: jax.Array, view: View) -> jax.Array:
    scaled = image * (1 + augmentation.intensity * view.intensity)
    return shifted(scaled, offsets(augmentation.shift, view.shift)) if image.ndim == 3 else scaled


@augment.register
def _(augmentation: Clipped, image: jax.Array, view: View) -> jax.Array:
    return jnp.clip(augment(augmentation.inner, image, view), augmentation.low, augmentation.high)


def offsets(shift: Any, uniform: jax.Array) -> jax.Array:
    """Whole numbers, uniform in -shift .. shift."""
    return jnp.minimum((uniform * (2 * shift + 1)).astype(jnp.int32), 2 * shift) - shift


def shifted(image: jax.Array, offset: jax.Array) -> jax.Array:
    """The image moved by (rows, columns), its edges repeated: padding and cropping in one gather."""
    rows = jnp.clip(jnp.arange(image.shape[0]) + offset[0], 0, image.shape[0] - 1)
    columns = jnp.clip(jnp.arange(image.shape[1]) + offset[1], 0, image.shape[1] - 1)
    return image[rows][:, columns]
