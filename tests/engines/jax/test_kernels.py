"""The kernels of a card, run by an interpreter, against the definition and its gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Conv, Mlp, Relu, agent_named
from headrace.definition.networks import Layer, activate, convolve, encode, product, unroll
from headrace.engines.jax import fleet
from headrace.engines.jax.kernels import (
    Fused,
    Normed,
    convolved,
    fused_where_it_fits,
    normed,
    programs,
    rows_times,
    unrolled,
    vector_times,
)
from headrace.envs.registry import environment
from tests.definition.support import compiled

STREAMS, ACTIONS = 2, 3
LARGE = Conv((32, 64, 64), ((8, 8), (4, 4), (3, 3)), ((4, 4), (2, 2), (1, 1)), 512)  # Atari's


@pytest.fixture(autouse=True, scope="module")
def interpreted() -> Iterator[None]:
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "INTERPRET", True)
        yield
    jax.clear_caches()  # programs made of interpreted kernels are of no use to others


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (STREAMS, *shape))


def assert_alike(fast: Callable[..., jax.Array], plain: Callable[..., jax.Array], *arguments: Any) -> None:
    """Equal values, and equal gradients of a weighted sum of them, stream by stream."""

    def evaluated(call: Callable[..., jax.Array]) -> Any:
        def weighted(*arguments: Any) -> tuple[jax.Array, jax.Array]:
            found = jax.vmap(call)(*arguments)
            return jnp.sum(found * jnp.cos(jnp.arange(found.size).reshape(found.shape))), found

        every = tuple(range(len(arguments)))
        (_, found), gradients = compiled(jax.value_and_grad(weighted, every, has_aux=True))(*arguments)
        return found, gradients

    assert_near(evaluated(fast), evaluated(plain))


def test_a_layer_is_a_convolution_with_layer_norm_and_leaky_relu() -> None:
    image = normal(0, 10, 10, 10)
    weights = 0.2 * normal(1, 3, 3, 10, 16), 0.1 * normal(2, 16)
    streams = jnp.arange(STREAMS)  # the image takes no gradient, so it is no argument here
    assert_alike(
        lambda w, b, i: convolved(w, b, image[i.astype(int)]),
        lambda w, b, i: activate(convolve({"w": w, "b": b}, image[i.astype(int)], (1, 1))),
        *weights, streams.astype(jnp.float32),
    )  # fmt: skip


def layers() -> list[Layer]:
    first = {"w": 0.1 * normal(3, 3, 3, 16 + ACTIONS, 16), "b": 0.1 * normal(4, 16)}
    return [first, {"w": 0.1 * normal(5, 3, 3, 16, 16), "b": 0.1 * normal(6, 16)}]


@pytest.mark.parametrize("horizon", [1, 2])
def test_the_unrolled_dynamics_are_the_definition_step_by_step(horizon: int) -> None:
    """A latent that is not square, so that rows and columns cannot be mistaken for each other."""
    actions = jax.nn.one_hot(jnp.array([[0, 2], [1, 1]])[:, :horizon], ACTIONS)
    assert_alike(
        lambda layers, z, a: unrolled(layers, z, a),
        lambda layers, z, a: unroll(Conv(), layers, z, a),
        layers(), normal(7, 4, 8, 16), actions,
    )  # fmt: skip


def test_an_activation_of_an_image_that_does_not_fill_its_room() -> None:
    assert_alike(normed, lambda x, b: activate(x + b), normal(11, 5, 4, 16), 0.1 * normal(12, 16))


def test_a_network_of_such_activations_is_the_definition() -> None:
    network = Conv((16, 32), ((4, 4), (3, 3)), ((2, 2), (1, 1)), 8)
    encoder = [{"w": 0.1 * normal(13, 4, 4, 2, 16), "b": 0.1 * normal(14, 16)}]
    encoder += [{"w": 0.1 * normal(15, 3, 3, 16, 32), "b": 0.1 * normal(16, 32)}]
    dynamics = [{"w": 0.1 * normal(17, 3, 3, 32 + ACTIONS, 32), "b": 0.1 * normal(18, 32)}]
    dynamics += [{"w": 0.1 * normal(19, 3, 3, 32, 32), "b": 0.1 * normal(20, 32)}]
    actions = jax.nn.one_hot(jnp.array([[0, 2], [1, 1]]), ACTIONS)

    def imagined(network: Any) -> Callable[..., jax.Array]:
        return lambda enc, dyn, obs, a: unroll(network, dyn, encode(network, enc, obs), a)

    assert_alike(imagined(Normed(network)), imagined(network), encoder, dynamics, normal(21, 12, 14, 2), actions)


def test_a_dense_layer_on_rows_and_on_a_vector() -> None:
    w = 0.03 * normal(8, 256, 64)
    assert_alike(rows_times, product, normal(9, 5, 256), w)
    assert_alike(rows_times, product, normal(9, 10, 256), w)
    assert_alike(vector_times, product, normal(10, 256), w)


def assert_near(got: Any, wanted: Any) -> None:
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=3e-6 * float(jnp.abs(theirs).max()))


@pytest.mark.long
def test_a_fleet_of_kernels_is_a_fleet_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two games of different channels and actions, 12 steps of qrc+spr+orth: everything to float32 rounding."""
    saved, steps = [], 12
    for as_kernels in (lambda network: network), Fused:
        monkeypatch.setattr(fleet, "_as_kernels", lambda layout, made=as_kernels: made(layout.network))
        envs = [environment(f"minatar/{game}").compiled() for game in ("breakout", "seaquest")]
        streams = fleet.Fleet([agent_named("qrc+spr+orth")] * 2, envs, [0, 1], 1000)
        streams.begin()
        streams.run(steps)
        saved.append(streams.save())
    for fast, plain in zip(*reversed(saved), strict=True):
        assert fast.keys() == plain.keys()
        for name, array in plain.items():
            terms = steps if "/tally/" in name else 1  # a sum is as far off as all that is added up
            atol = 5e-6 * max(1.0, np.abs(array).max()) * terms
            np.testing.assert_allclose(fast[name], array, rtol=0, atol=atol, err_msg=name)


def test_what_does_not_fit_stays_as_it_is() -> None:
    small, rectified = Conv(), Conv(head=Relu())
    assert fused_where_it_fits(small, (10, 10, 4)) == Fused(small)
    assert fused_where_it_fits(rectified, (10, 10, 4)) == Fused(rectified)  # what is behind P is no kernel
    assert fused_where_it_fits(Conv(hidden=96), (10, 10, 4)) == Fused(Conv(hidden=96))
    for network, shape in [
        (LARGE, (84, 84, 4)),  # more than one layer
        (small, (9, 10, 4)),  # 7 x 8 positions are no power of two
        (small, (10, 10, 17)),  # too many channels
        (Conv(hidden=100), (10, 10, 4)),  # 100 outputs do not divide into blocks
    ]:
        assert fused_where_it_fits(network, shape) == Normed(network)
    for other, shape in [
        (Conv((24,)), (10, 10, 4)),  # 24 channels are no power of two
        (LARGE, (180, 180, 4)),  # an image of 44 x 44 x 32
        (Mlp(), (128,)),
    ]:
        assert fused_where_it_fits(other, shape) is other


def test_a_product_of_parts_has_the_digits_of_float32() -> None:
    """Numbers of very different sizes; without the last parts the error would be some forty times as large."""
    a, b = (normal(seed, 32, 64)[0] * 10.0 ** normal(seed + 9, 32, 1)[0] for seed in (1, 2))
    wanted = np.asarray(a, np.float64) @ np.asarray(b, np.float64).T
    sizes = np.abs(np.asarray(a, np.float64)) @ np.abs(np.asarray(b, np.float64)).T
    error = np.abs(np.asarray(programs.dot_of_parts(a, b.T)) - wanted) / sizes
    assert error.max() < 2e-7


@pytest.mark.parametrize(
    ("backend", "without", "said"),
    [
        ("cpu", None, "no accelerator was found: the fleet runs on the CPU"),
        ("tpu", None, "headrace's kernels are for GPUs: on this tpu the fleet is what the compiler makes of it"),
        ("gpu", "jax.experimental.pallas.triton", f"JAX {jax.__version__} runs no kernels of Pallas' Triton: "),
        ("gpu", None, ""),
    ],
)
def test_a_fleet_is_made_of_kernels_where_they_run_and_it_is_said_where_not(
    monkeypatch: pytest.MonkeyPatch, backend: str, without: str | None, said: str
) -> None:
    monkeypatch.setattr("jax.default_backend", lambda: backend)
    if without:
        monkeypatch.setitem(sys.modules, without, None)
    envs = [environment("minatar/breakout").compiled()] * 2
    network = fleet.Fleet([agent_named("qrc+spr+orth")] * 2, envs, [0, 1], 1000).layout.network
    assert fleet.handicap().startswith(said)
    assert isinstance(network, Fused) == (fleet.handicap() == "")
