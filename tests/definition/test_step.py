"""Choosing actions, drawing random numbers, and filtering the RL stream."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Agent, EpsilonGreedy, Orth, Qrc, agent_named, tweak
from headrace.definition import step as agent_module
from headrace.definition.networks import Layout
from headrace.definition.step import act, draw_step, epsilon
from headrace.definition.transition import Draws
from tests.definition.support import (
    SHAPES,
    VECTOR,
    experience,
    flat,
    learn_eagerly,
    run,
    small,
    start,
)

AGENT, LAYOUT = Agent(Qrc()), Layout(VECTOR, (3,), 3, 3)

# exploration ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "wanted"),
    [(0, 1.0), (250_000, 0.505), (125_000, 0.7525), (500_000, 0.01), (500_001, 0.01), (5_000_000, 0.01)],
)
def test_epsilon_falls_linearly_from_1_to_a_hundredth_over_a_tenth_of_the_run(step, wanted):
    assert float(epsilon(EpsilonGreedy(), step, 5e6)) == pytest.approx(wanted, rel=1e-6)


def test_stream_q_explores_twice_as_long():
    explore = agent_named("strq").explore
    assert float(epsilon(explore, 500_000, 5e6)) == pytest.approx(0.505)
    assert float(epsilon(explore, 1_000_000, 5e6)) == pytest.approx(0.01)


def draws(explore, action):
    return Draws(jnp.float32(explore), jnp.float32(action), jnp.float32(0), jnp.zeros(0), jnp.zeros(0))


@pytest.fixture
def values(monkeypatch):
    """Q = (1, 3, 2): action 1 is the best."""
    monkeypatch.setattr(agent_module, "q_values", lambda layout, params, obs: jnp.array([1.0, 3.0, 2.0]))


@pytest.mark.parametrize(
    ("explore", "action", "chosen", "greedy"),
    [
        (0.3, 0.0, 1, True),  # 0.3 is not below epsilon: the best action
        (0.2, 0.0, 0, False),
        (0.2, 0.4, 1, True),  # a random draw of the best action
        (0.2, 0.9999999, 2, False),
    ],
)
@pytest.mark.usefixtures("values")
def test_an_exploratory_draw_of_the_best_action_counts_as_greedy(explore, action, chosen, greedy):
    choice = act(
        AGENT,
        LAYOUT,
        {},
        jnp.zeros(3),
        jnp.float32(0.3),
        draws(explore, action),
    )
    assert (int(choice.action), bool(choice.greedy)) == (chosen, greedy)


@pytest.mark.usefixtures("values")
def test_exploration_is_uniform_over_the_actions_and_happens_with_probability_epsilon():
    drawn = jax.vmap(lambda key: draw_step(AGENT, LAYOUT, key, key))(jax.random.split(jax.random.key(0), 30_000))
    always = jax.vmap(lambda d: act(AGENT, LAYOUT, {}, jnp.zeros(3), jnp.float32(1.0), d))(drawn)
    assert np.bincount(always.action) == pytest.approx(np.full(3, 10_000), rel=0.05)
    some = jax.vmap(lambda d: act(AGENT, LAYOUT, {}, jnp.zeros(3), jnp.float32(0.3), d))(drawn)
    assert float(np.mean(~np.asarray(some.greedy))) == pytest.approx(0.3 * 2 / 3, rel=0.05)
    assert bool(jnp.all(some.greedy == (some.action == 1)))


@pytest.mark.usefixtures("values")
def test_outputs_that_stand_for_no_action_are_never_drawn():
    layout = Layout(VECTOR, (3,), 3, 2)
    found = [
        int(act(AGENT, layout, {}, jnp.zeros(3), jnp.float32(1.0), draws(0.0, u)).action)
        for u in (0.0, 0.49, 0.51, 0.9999999)
    ]
    assert found == [0, 0, 1, 1]


# draws ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "numbers"), [("qrc", 0), ("qrc+spr", 3 * 6), ("qrc+curl", 3 * 10)])
def test_a_step_draws_three_numbers_and_three_for_every_augmented_image(name, numbers):
    drawn = draw_step(agent_named(name), LAYOUT, jax.random.key(0), jax.random.key(1))
    assert drawn.aux.shape == (numbers,)
    everything = flat(drawn)
    assert len(np.unique(everything)) == 3 + numbers
    assert np.all((everything >= 0) & (everything < 1))


# orth on the RL stream ------------------------------------------------------------------------------------------------


def test_the_rl_update_loses_its_component_along_the_average_of_past_ones_and_nothing_else_changes():
    plain = small(Agent(Qrc(lr=0.05)))
    filtered = replace(plain, td_filter=Orth())
    seen, begun = experience(SHAPES[VECTOR], 2), start(plain)
    one = run(filtered, start(filtered), seen[:1], learn_eagerly)
    two = run(filtered, start(filtered), seen, learn_eagerly)
    unfiltered_one, unfiltered_two = (run(plain, begun, seen[:n], learn_eagerly) for n in (1, 2))
    assert np.array_equal(flat(one.params), flat(unfiltered_one.params))
    for n in ("encoder", "projection", "head"):
        first, second = flat(one.params[n]) - flat(begun.params[n]), flat(two.params[n]) - flat(one.params[n])
        assert abs(first @ second) < 1e-3 * np.linalg.norm(first) * np.linalg.norm(second)
        assert np.linalg.norm(second) > 1e-5
        assert np.array_equal(flat(two.params[f"h_{n}"]), flat(unfiltered_two.params[f"h_{n}"]))
    assert np.array_equal(flat(two.td), flat(unfiltered_two.td))
    assert not np.array_equal(flat(two.params), flat(unfiltered_two.params))


def test_orth2_removes_what_lies_along_the_rl_update_as_orth_leaves_it():
    agent = small(replace(agent_named("strq+spr+orth2"), td_filter=Orth(beta=0.5)))
    agent = tweak(agent, "aux.objective.horizon=1")
    seen = experience(SHAPES[VECTOR], 4)
    before = run(agent, start(agent), seen[:-1], learn_eagerly)
    both, alone = (run(one, before, seen[-1:], learn_eagerly) for one in (agent, tweak(agent, "aux.weight=0")))
    for n in ("encoder", "projection"):
        aux, td = flat(both.params[n]) - flat(alone.params[n]), flat(alone.params[n]) - flat(before.params[n])
        assert np.linalg.norm(aux) > 1e-6
        assert abs(aux @ td) < 0.01 * np.linalg.norm(aux) * np.linalg.norm(td)
