"""What the kernels are made of: one program of the card, and what it does with the numbers of one stream."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from headrace.definition.networks import LAYER_NORM_EPS, NEGATIVE_SLOPE

TAPS = 9  # of a 3x3 kernel
PRECISION: Any = jax.lax.Precision.HIGHEST  # float32
INTERPRET = False  # tests run the kernels on a CPU


def power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.dot(a, b, precision=PRECISION, preferred_element_type=jnp.float32)


def dot_of_parts(a: jax.Array, b: jax.Array) -> jax.Array:
    """The same on the units of the card that multiply matrices of 8 bits, as exact as in float32.

    Each factor is the sum of three such parts; products that are below the last bit of the whole are left out.
    """
    (a1, a2, a3), (b1, b2, b3) = _parts(a), _parts(b)
    pairs = (a3, b1), (a2, b2), (a1, b3), (a2, b1), (a1, b2), (a1, b1)  # the smallest first
    return total_of(jnp.dot(x, y, preferred_element_type=jnp.float32) for x, y in pairs)


def _parts(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    first = a.astype(jnp.bfloat16)
    rest = a - first.astype(jnp.float32)
    second = rest.astype(jnp.bfloat16)
    return first, second, (rest - second.astype(jnp.float32)).astype(jnp.bfloat16)


def load(ref: Any, index: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    return plt.load(ref.at[index], mask=mask, other=None if mask is None else 0.0)


def wait() -> None:
    """What was stored before is there to be loaded after, by whichever thread."""
    if not INTERPRET:
        plt.debug_barrier()


def total_of(terms: Iterable[jax.Array]) -> jax.Array:
    return functools.reduce(jnp.add, terms)


def count(n: int, axis: int) -> jax.Array:
    """0 .. n - 1 along an axis of a matrix that has but one entry along the other."""
    return jax.lax.broadcasted_iota(jnp.int32, (n, 1) if axis == 0 else (1, n), axis)


def tile_of(positions: int, outputs: int) -> jax.Array:
    """Where the elements of a (positions, channels) image lie."""
    return count(positions, 0) * outputs + count(outputs, 1)


def activate(x: jax.Array, real: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """LeakyReLU(LayerNorm(x)), and 1 / standard deviation, of the entries that are `real`: by default of all."""
    n = _number(x, real)
    centred = _only(real, x - jnp.sum(_only(real, x)) / n)
    scale = jax.lax.rsqrt(jnp.sum(centred * centred) / n + LAYER_NORM_EPS)
    normal = centred * scale
    return jnp.where(normal >= 0, normal, NEGATIVE_SLOPE * normal), scale


def activation_gradient(y: jax.Array, scale: jax.Array, dy: jax.Array, real: jax.Array | None = None) -> jax.Array:
    """The gradient of the pre-activation, from that of the activation `y`; where it is not `real` both are zero."""
    n = _number(y, real)
    normal = jnp.where(y >= 0, y, y / NEGATIVE_SLOPE)
    d = jnp.where(y >= 0, dy, NEGATIVE_SLOPE * dy)
    return _only(real, scale * (d - jnp.sum(d) / n - normal * (jnp.sum(d * normal) / n)))


def _number(x: jax.Array, real: jax.Array | None) -> Any:
    return x.size if real is None else jnp.sum(real.astype(jnp.float32))


def _only(real: jax.Array | None, x: jax.Array) -> jax.Array:
    return x if real is None else jnp.where(real, x, 0.0)


def call(
    kernel: Any, out_shapes: list[tuple[int, ...]], *operands: jax.Array, programs: int = 1, warps: int = 4
) -> Any:
    """So many programs of the kernel; `vmap` makes it so many for each stream."""
    return pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in out_shapes],
        grid=(programs,),
        compiler_params=None if INTERPRET else plt.CompilerParams(num_warps=warps, num_stages=1),
        interpret=INTERPRET,
        name=getattr(kernel, "func", kernel).__name__.strip("_"),
    )(*operands)
