"""Sight: what differs between the states that are seen, on numbers worked out by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Mlp, agent_named
from headrace.definition.networks import init_params, layout_of
from headrace.engines.jax.sight import EVERY, STATES, measures, none_seen, seen_with, sight
from headrace.engines.jax.stream import make_setting
from tests.engines.learner.support import on

ALL, BOTH = jnp.array([True, True]), jnp.array([True, True])
Q = jnp.array([[1.0, 3.0], [2.0, 6.0]])  # two states, two actions
Z = jnp.array([[3.0, 1.0], [1.0, -1.0]])
HIDDEN = jnp.array([[-1.0, 2.0], [-3.0, 2.0]])
NOTHING = jnp.array([[0.0, 0.0]])


_measures, _sight, _seen_with = jax.jit(measures), jax.jit(sight, static_argnums=0), jax.jit(seen_with)


def measured(*given):
    return {name: float(value) for name, value in _measures(*given).items()}


def test_two_states_and_two_actions():
    """Variances over states 1/4 and 9/4, deviations over actions 1 and 2; of the latents 1 and 1 of 10 and 2; the first
    hidden unit is negative at both states."""
    found = measured(Q, Z, HIDDEN, BOTH, ALL)
    assert found["sight"] == pytest.approx(np.sqrt(1.25) / 1.5)
    assert found["latent_spread"] == pytest.approx(2 / 6)
    assert found["dead_units"] == pytest.approx(1 / 4)


def test_what_is_no_state_or_no_action_does_not_count():
    more = [jnp.concatenate([x, 100 + NOTHING]) for x in (Z, HIDDEN)]
    wide = jnp.pad(jnp.concatenate([Q, 100 + NOTHING]), ((0, 0), (0, 1)), constant_values=-jnp.inf)
    padded = measured(wide, *more, jnp.array([True, True, False]), jnp.array([True, True, False]))
    assert padded == pytest.approx(measured(Q, Z, HIDDEN, BOTH, ALL))


def test_a_blind_agent_has_no_sight():
    same = [jnp.stack([x[0], x[0]]) for x in (Q, Z, HIDDEN)]
    found = measured(*same, BOTH, ALL)
    assert found["sight"] == found["latent_spread"] == 0
    flat = measured(jnp.ones((2, 2)), *same[1:], BOTH, ALL)
    assert flat["sight"] == 0  # 0 of 0


AGENT = on(agent_named("dqn"), Mlp((6, 5), 7))
LAYOUT = layout_of(AGENT, (4,), 3)
PARAMS = init_params(AGENT, LAYOUT, make_setting(AGENT, 0, 1).key)


def seen_at(steps, places):
    """Sight after so many steps, of one row of observations for every place."""
    found = _sight(LAYOUT, PARAMS, np.asarray(places, np.float32), jnp.int32(steps))
    return {name: float(value) for name, value in found.items()}


def test_one_observation_in_125_is_kept_the_last_eight_of_them():
    seen = none_seen(LAYOUT)
    for step in (t for t in range(1501) if t % EVERY < 2):
        seen = _seen_with(seen, np.full(4, step, np.float32), jnp.int32(step))
    assert seen[:, 0].tolist() == [1000, 1125, 1250, 1375, 1500, 625, 750, 875]


def test_before_all_places_are_filled_only_those_that_are_count():
    three = np.random.default_rng(0).normal(size=(3, 4))
    found = seen_at(2 * EVERY + 1, [*three, *np.zeros((5, 4))])
    assert found["sight"] > 0
    assert seen_at(2 * EVERY + 1, [*three, *np.full((5, 4), 9)]) == found


def test_where_nothing_differs_there_is_nothing_to_be_seen():
    assert all(np.isnan(value) for value in seen_at(2000, np.ones((STATES, 4))).values())
    assert all(np.isnan(value) for value in seen_at(EVERY, [np.ones(4), *np.zeros((7, 4))]).values())
