"""orth by hand. A history keeps half of itself here, so that the numbers stay short."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Fading, Orth, Projected, Raw, RawCurrent, Together, Unfiltered
from headrace.definition.filters import filter_gradient, init_filter, rested

GRADIENTS = [[2.0, 0.0], [1.0, 1.0], [0.0, 4.0]]


def run(history, gradients, beta=0.5):
    """What is left of each gradient, and the history after it, in a module of one vector."""
    orth = Orth(beta=beta, history=history)
    state, seen = init_filter(orth, {"m": [jnp.zeros(2)]}), []
    for g in gradients:
        left, state = filter_gradient(orth, {"m": [jnp.array(g)]}, state)
        seen.append((left["m"][0].tolist(), state["m"][0].tolist()))
    return seen


def approx(pairs):
    return [(pytest.approx(u, abs=1e-6), pytest.approx(c, abs=1e-6)) for u, c in pairs]


def test_raw_history_projects_on_the_past_and_then_takes_the_gradient_in():
    # c = (1, 0): (1, 1) keeps (0, 1).  c = (1, 1/2): (0, 4).c = 2, ||c||^2 = 5/4, 8/5 of c goes: (-1.6, 3.2).
    wanted = [([2, 0], [1, 0]), ([0, 1], [1, 0.5]), ([-1.6, 3.2], [0.5, 2.25])]
    assert run(Raw(), GRADIENTS) == approx(wanted)


def test_projected_history_averages_what_was_left():
    # c = (1, 0): (0, 1) is left and c becomes (1/2, 1/2): half of (0, 4) along it goes: (-2, 2).
    wanted = [([2, 0], [1, 0]), ([0, 1], [0.5, 0.5]), ([-2, 2], [-0.75, 1.25])]
    assert run(Projected(), GRADIENTS) == approx(wanted)


def test_raw_current_history_contains_the_gradient_before_it_projects():
    # c = (1, 0) already: nothing of (2, 0) is left.  c = (1, 1/2): (1, 1).c = 3/2, 6/5 of c goes: (-0.2, 0.4).
    # c = (1/2, 9/4): (0, 4).c = 9, ||c||^2 = 85/16, 144/85 of c goes.
    k = 144 / 85
    wanted = [([0, 0], [1, 0]), ([-0.2, 0.4], [1, 0.5]), ([-k * 0.5, 4 - k * 2.25], [0.5, 2.25])]
    assert run(RawCurrent(), GRADIENTS) == approx(wanted)


@pytest.mark.parametrize("history", [Raw(), Projected()])
def test_what_is_left_is_orthogonal_to_the_history_before_the_step(history):
    past = [0.0, 0.0]
    for (left, after), _ in zip(run(history, GRADIENTS, beta=0.99), GRADIENTS, strict=True):
        assert np.dot(left, past) == pytest.approx(0, abs=1e-6)
        past = after


@pytest.mark.parametrize("history", [Raw(), Projected(), RawCurrent()])
def test_the_papers_history_takes_a_hundredth_of_the_first_gradient(history):
    assert run(history, [[2.0, 0.0]], beta=0.99)[0][1] == pytest.approx([0.02, 0])


def test_a_module_is_one_vector_and_modules_do_not_see_each_other():
    orth = Orth(beta=0.5)
    first = {"a": [{"w": jnp.array([2.0]), "b": jnp.array([2.0])}], "b": [{"w": jnp.array([0.0, 2.0])}]}
    second = {"a": [{"w": jnp.array([4.0]), "b": jnp.array([0.0])}], "b": [{"w": jnp.array([3.0, 0.0])}]}
    _, state = filter_gradient(orth, first, init_filter(orth, first))
    left, _ = filter_gradient(orth, second, state)
    # In a: c = (1, 1), half of (4, 0) along it goes, weights and bias together. In b: c = (0, 1), nothing goes;
    # over all modules jointly c = (1, 1, 0, 1) would have taken 4/3 of c away from both.
    assert (left["a"][0]["w"].tolist(), left["a"][0]["b"].tolist()) == ([2.0], [-2.0])
    assert left["b"][0]["w"].tolist() == [3.0, 0.0]


def modules(encoder, projection, dynamics):
    named = {"encoder": encoder, "projection": projection, "dynamics": dynamics}
    return {name: [{"w": jnp.array([value])}] for name, value in named.items()}


def numbers(tree):
    return [tree[name][0]["w"].tolist()[0] for name in ("encoder", "projection", "dynamics")]


def test_orth_as_released_over_three_steps_and_a_rest():
    """The Q network is one vector, its history averages what was left, and decays by half at the rest."""
    orth = Orth(beta=0.5, history=Projected(), modules=Together(), rest=Fading())
    state = init_filter(orth, modules(0.0, 0.0, 0.0))
    left, state = filter_gradient(orth, modules(2.0, 0.0, 1.0), state)
    assert (numbers(left), numbers(state)) == ([2, 0, 1], [1, 0, 0.5])
    state = rested(orth, state)
    assert numbers(state) == [0.5, 0, 0.25]
    left, state = filter_gradient(orth, modules(1.0, 1.0, 3.0), state)
    assert (numbers(left), numbers(state)) == approx([([0, 1, 0], [0.25, 0.5, 0.125])])[0]
    # Q: (0, 4).(1/4, 1/2) = 2, the square of (1/4, 1/2) is 5/16: 6.4 of it goes. Each apart, nothing would be left.
    left, state = filter_gradient(orth, modules(0.0, 4.0, 2.0), state)
    assert (numbers(left), numbers(state)) == approx([([-1.6, 0.8, 0], [-0.675, 0.65, 0.0625])])[0]


@pytest.mark.parametrize("filter_", [Unfiltered(), Orth()])
def test_otherwise_nothing_changes_at_a_rest(filter_):
    state = modules(1.0, 2.0, 3.0)
    assert numbers(rested(filter_, state)) == numbers(state)


def test_a_short_history_projects_as_well_as_a_long_one():
    orth = Orth(beta=0.0)
    tiny = {"m": [jnp.array([1e-9, 0.0])]}
    _, state = filter_gradient(orth, tiny, init_filter(orth, tiny))
    left, _ = filter_gradient(orth, {"m": [jnp.array([3.0, 4.0])]}, state)
    assert left["m"][0].tolist() == pytest.approx([0, 4], abs=1e-5)


def test_without_a_history_the_gradient_passes():
    left, state = filter_gradient(Unfiltered(), {"m": [jnp.array([3.0, 4.0])]}, ())
    assert (left["m"][0].tolist(), state) == ([3.0, 4.0], ())
    assert run(Raw(), [[3.0, 4.0]])[0][0] == [3.0, 4.0]
