"""The kernels behind the projection, run by an interpreter, against the definition and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Conv
from headrace.engines.reference.fused.behind import best_of, guessed, value_of, values_of
from headrace.engines.reference.networks import Layout, q_of
from headrace.engines.reference.objectives import cosine_similarity
from headrace.engines.reference.td import best

pytestmark = pytest.mark.usefixtures("interpreted")
STREAMS, WIDTH, ROOM, ACTIONS = 3, 16, 6, jnp.array([6, 4, 1])  # actions of each stream, and room for the most


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (STREAMS, *shape))


def assert_near(got: Any, wanted: Any) -> None:
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=2e-6)


def given() -> tuple[jax.Array, jax.Array, jax.Array]:
    """What came out of a projection, its bias, and the weights of a head."""
    return normal(0, WIDTH), normal(1, WIDTH), normal(2, WIDTH, ROOM)


def q(y: jax.Array, b: jax.Array, head: jax.Array, actions: jax.Array) -> jax.Array:
    layout = Layout(Conv(hidden=WIDTH), (10, 10, 4), ROOM, actions)
    return q_of(layout, {"w": head}, y + b)


def defined(value: Callable[[jax.Array], jax.Array]) -> Any:
    """A value of Q(s, .) and its gradients by the definition."""

    def evaluated(y: jax.Array, b: jax.Array, head: jax.Array, actions: jax.Array) -> Any:
        def f(y: jax.Array, head: jax.Array) -> jax.Array:
            return value(q(y, b, head, actions))

        return f(y, head), *jax.grad(f, (0, 1))(y, head)

    return jax.vmap(evaluated)


def test_values_are_those_of_the_definition() -> None:
    found = jax.vmap(lambda y, b, head: values_of(b, {"w": head}, y))(*given())
    assert_near(found, jax.vmap(q, (0, 0, 0, None))(*given(), ROOM))


def test_the_best_value_and_its_way_back() -> None:
    """Streams have fewer actions than there is room for; those that are none would often be the best."""

    def mine(y: jax.Array, b: jax.Array, head: jax.Array, actions: jax.Array) -> Any:
        found = best_of(actions, b, {"w": head}, y)
        return found.value, found.rows[0], found.layer["w"]

    y, b, head = given()
    head = head.at[:, :, -1].set(10 * head[:, :, -1])
    assert_near(jax.vmap(mine)(y, b, head, ACTIONS), defined(best)(y, b, head, ACTIONS))


def test_of_equal_values_the_first_is_followed_and_what_is_no_number_is_the_largest() -> None:
    y, b, head = given()
    followed = jax.vmap(lambda y, b, head: jnp.any(best_of(ROOM, b, {"w": head}, y).layer["w"] != 0, axis=0))
    equal = followed(y, b, jnp.zeros_like(head))
    np.testing.assert_array_equal(equal, [[True] + [False] * (ROOM - 1)] * STREAMS)
    broken = followed(y, b, head.at[:, :, 2].set(jnp.nan).at[:, :, 4].set(jnp.nan))
    np.testing.assert_array_equal(broken, [[i == 2 for i in range(ROOM)]] * STREAMS)


def test_the_value_of_an_action_and_its_way_back() -> None:
    chosen = jnp.array([5, 0, 2])

    def mine(y: jax.Array, b: jax.Array, head: jax.Array, action: jax.Array) -> Any:
        found = value_of(action, b, {"w": head}, y)
        return found.value, found.rows[0], found.layer["w"]

    found = jax.vmap(mine)(*given(), chosen)
    for i, action in enumerate(chosen):
        wanted = defined(lambda q, action=action: q[action])(*given(), jnp.full(STREAMS, ROOM))
        assert_near(jax.tree.map(lambda x, i=i: x[i], found), jax.tree.map(lambda x, i=i: x[i], wanted))


def test_a_guess_that_is_no_number_has_no_slope_that_is_one() -> None:
    y, b, w = normal(3, 1, WIDTH).at[0].set(jnp.nan), normal(4, WIDTH), normal(5, WIDTH, WIDTH)
    found = jax.vmap(lambda y, b, w: guessed(-jnp.ones(1), b, {"w": w, "b": b}, y, [jnp.ones((1, WIDTH))])[:2])(y, b, w)
    for array in found:
        np.testing.assert_array_equal(np.isnan(array).reshape(STREAMS, -1).all(axis=1), [True, False, False])
        assert not np.isnan(array[1:]).any()


@pytest.mark.parametrize("parts", [(3,), (2, 1), (1, 1, 1)])
def test_guesses_are_as_good_as_their_cosines_say(parts: tuple[int, ...]) -> None:
    """Each with a share of its own. The second guess of every stream is shorter than a vector counts."""
    shares = -jnp.array([1.0, 0.5, 2.0])
    y, b, w = normal(3, 3, WIDTH), normal(4, WIDTH), normal(5, WIDTH, WIDTH)
    bias, truth = normal(6, WIDTH), normal(7, 3, WIDTH)
    y = y.at[:, 1].set(-b)
    bias = bias.at[:].set(1e-5 * bias)
    cuts = np.cumsum(parts)[:-1]

    def mine(y: jax.Array, b: jax.Array, w: jax.Array, bias: jax.Array, truth: jax.Array) -> Any:
        found = guessed(shares, b, {"w": w, "b": bias}, y, jnp.split(truth, cuts))
        return found.value, found.rows, found.layer["w"], found.layer["b"]

    def wanted(y: jax.Array, b: jax.Array, w: jax.Array, bias: jax.Array, truth: jax.Array) -> Any:
        def cosines(y: jax.Array, w: jax.Array, bias: jax.Array) -> jax.Array:
            return cosine_similarity((y + b) @ w + bias, truth + b)

        gradients = jax.grad(lambda *x: jnp.sum(shares * cosines(*x)), (0, 1, 2))(y, w, bias)
        return cosines(y, w, bias), *gradients

    for got, exact in zip(jax.vmap(mine)(y, b, w, bias, truth), jax.vmap(wanted)(y, b, w, bias, truth), strict=True):
        np.testing.assert_allclose(got, exact, rtol=0, atol=3e-6 * float(jnp.abs(exact).max()))
