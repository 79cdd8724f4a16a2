"""From what an environment says to what an agent learns, by hand, on one number as observation."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.definition.networks import layout_of
from headrace.definition.step import Choice, Learnt, example
from headrace.engines.jax import stream
from headrace.envs.base import TimeStep

AGENT = tweak(agent_named("qrc+spr"), "network=Mlp((2,), 2)", "td.gamma=0.5")
LAYOUT = layout_of(AGENT, (1,), 2)


def said(successor, reward=0.0, terminated=False, truncated=False, last=None, obs=None):
    last = terminated or truncated if last is None else last
    obs = successor if obs is None else obs
    return TimeStep(
        jnp.array([obs], jnp.float32), jnp.array([successor], jnp.float32), jnp.float32(reward),
        jnp.bool_(terminated), jnp.bool_(truncated), jnp.bool_(last),
    )  # fmt: skip


class Spy(NamedTuple):
    """The transitions that reached `learn`."""

    transitions: list


def telling(transition, active):
    """What the spy says of a step: q is not a number where the episode was truncated."""
    always = {"q": jnp.where(transition.truncated, jnp.nan, 0.0), "td_error": jnp.float32(1)}
    return Learnt(always, jnp.bool_(active), {"aux_loss": jnp.float32(3)})


@pytest.fixture
def spy(monkeypatch):
    """An agent that learns nothing but keeps what it was shown; its auxiliary is active at every second step."""
    found = Spy([])

    def learn(agent, layout, state, transition, eps, draws, values_of):
        found.transitions.append(transition)
        return state._replace(step=state.step + 1), telling(transition, len(found.transitions) % 2 == 0)

    monkeypatch.setattr(stream, "learn", learn)
    monkeypatch.setattr(stream, "_example_learnt", lambda setting, layout: telling(example(layout), False))
    return found


SETTING = stream.make_setting(AGENT, 0, 100)


def play(first, *timesteps):
    state = stream.begin(SETTING, LAYOUT, jnp.array([first], jnp.float32))
    finished = []
    for timestep in timesteps:
        state, end = stream.advance(SETTING, LAYOUT, state, timestep)
        finished.append((bool(end.ended), float(end.episode_return), int(end.episode_length)))
    return state, finished


def test_the_first_observation_normalises_to_zero(spy):
    state, _ = play(7.0)
    assert state.obs.tolist() == [0.0]
    assert int(state.obs_scale.count) == 1


def test_statistics_take_the_new_observation_in_before_it_is_used(spy):
    play(1.0, said(3.0), said(5.0))
    # After 1 and 3: mean 2, variance 2; after 5: mean 3, variance 4.
    assert float(spy.transitions[0].next_obs[0]) == pytest.approx(1 / np.sqrt(2))
    assert float(spy.transitions[1].obs[0]) == pytest.approx(1 / np.sqrt(2))
    assert float(spy.transitions[1].next_obs[0]) == pytest.approx(1.0)


def test_rewards_are_scaled_by_their_discounted_sum_and_not_shifted(spy):
    play(
        0.0, said(1.0, reward=2.0), said(2.0, reward=3.0), said(3.0, reward=1.0, terminated=True), said(4.0, reward=1.0)
    )
    # u = 2, then 1 + 3 = 4, then (the step that ends the episode) 1, then 0.5 + 1 = 1.5.
    variances = [1.0, np.var([2, 4], ddof=1), np.var([2, 4, 1], ddof=1), np.var([2, 4, 1, 1.5], ddof=1)]
    wanted = np.array([2, 3, 1, 1]) / np.sqrt(np.array(variances))
    assert [float(t.reward) for t in spy.transitions] == pytest.approx(wanted, rel=1e-5)


def test_the_successor_is_learnt_from_and_the_restart_is_acted_on(spy):
    state, _ = play(1.0, said(3.0, terminated=True, obs=5.0))
    assert float(spy.transitions[0].next_obs[0]) == pytest.approx(1 / np.sqrt(2))
    # The restart is a sample too: 1, 3, 5 have mean 3 and variance 4.
    assert state.obs.tolist() == [pytest.approx(1.0)]
    assert int(state.obs_scale.count) == 3


def test_a_lost_life_goes_on_with_the_successor(spy):
    state, finished = play(
        1.0, said(3.0, reward=1.0, terminated=True, last=False), said(5.0, reward=2.0, truncated=True)
    )
    assert int(state.obs_scale.count) == 4
    t = spy.transitions[0]
    assert (bool(t.terminated), bool(t.truncated), bool(t.last)) == (True, False, False)
    assert finished == [(False, 1.0, 1), (True, 3.0, 2)]


def test_returns_and_lengths_are_raw_and_begin_anew_with_each_episode(spy):
    ends = play(0.0, said(1.0, 10.0), said(2.0, 5.0, terminated=True), said(3.0, 7.0, truncated=True), said(4.0, 1.0))[
        1
    ]
    assert ends == [(False, 10.0, 1), (True, 15.0, 2), (True, 7.0, 1), (False, 1.0, 1)]


def test_the_action_taken_is_the_one_that_was_chosen(spy):
    state = stream.begin(SETTING, LAYOUT, jnp.array([0.0]))
    state = state._replace(choice=Choice(jnp.int32(1), jnp.bool_(False)))
    stream.advance(SETTING, LAYOUT, state, said(1.0))
    assert (int(spy.transitions[0].action), bool(spy.transitions[0].greedy)) == (1, False)


def test_a_report_is_the_mean_since_the_last_one_and_the_auxiliarys_over_its_active_steps(spy):
    state, _ = play(0.0, said(1.0), said(2.0), said(3.0))
    means, cleared = stream.report(state.tally)
    assert (means["td_error"], means["aux_loss"], means["aux_active"]) == pytest.approx((1, 3, 1 / 3))
    # Epsilon falls from 1 by 0.99 / 10 a step: steps 0, 1, 2.
    assert means["epsilon"] == pytest.approx(1 - 0.099)
    assert int(cleared.steps) == 0
    assert stream.trouble_in(state.tally) is None


def test_the_first_quantity_that_is_not_finite_is_named_with_its_step(spy):
    state, _ = play(0.0, said(1.0), said(2.0, truncated=True), said(3.0), said(4.0, truncated=True))
    assert stream.trouble_in(state.tally) == ("q", 2)
    assert stream.trouble_in(stream.report(state.tally)[1]) == ("q", 2)


def test_every_step_and_every_seed_has_keys_of_its_own():
    other = stream.make_setting(AGENT, 1, 100)
    keys = [k for s in (SETTING, other) for step in range(3) for k in stream.step_keys(s, step)]
    assert len({tuple(jax.random.key_data(k).tolist()) for k in keys}) == 12
