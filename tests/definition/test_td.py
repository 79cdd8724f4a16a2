"""The rules by hand, on values that are a table.

There are two states and two actions; Q(s, a) is the entry of the head's weights at row s and column a, so that the
gradient is 1 there and 0 elsewhere. With gamma = lambda = 1/2 a trace keeps a quarter of itself.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import (
    Clip,
    Copy,
    Dqn,
    ExpectedSarsa,
    Latest,
    Mlp,
    Online,
    Polyak,
    Qrc,
    Replay,
    Sarsa,
    StreamQ,
    Unguarded,
)
from headrace.definition import evaluate, td
from headrace.definition.networks import Layout
from headrace.definition.rules import dqn
from tests.definition.support import compiled, td_step, transition

LAYOUT = Layout(Mlp(), (2,), 2, 2)
EAST, WEST = [1.0, 0.0], [0.0, 1.0]
Q = [[1.0, 2.0], [3.0, 5.0]]
H = [[0.5, 1.0], [-1.0, 2.0]]


@pytest.fixture(autouse=True)
def _a_table_of_values(monkeypatch):
    monkeypatch.setattr(evaluate, "q_values", lambda layout, modules, obs: obs @ modules["head"][0]["w"])


def tables(q, h=None):
    """The encoder and the projection are there, with a number that Q does not depend on."""
    values = {"encoder": [{"w": jnp.array([4.0])}], "projection": [{"w": jnp.array([-2.0])}]}
    params = {**values, "head": [{"w": jnp.array(q)}]}
    if h is not None:
        params |= {f"h_{name}": layers for name, layers in {**values, "head": [{"w": jnp.array(h)}]}.items()}
    return params


FIRST = transition(EAST, 1, 1.0, WEST)  # delta = 1 + 5/2 - 2 = 1.5
SECOND = transition(WEST, 1, -4.0, EAST)


class Stream:
    """A rule that learns from one transition after another."""

    def __init__(self, rule, h=None):
        self.rule, self.params, self.step = rule, tables(Q, h), 0
        self.state = td.init_td(rule, self.params, FIRST)

    def take(self, t, replay=0.0):
        self.made = td_step(self.rule, LAYOUT, self.params, self.state, t, jnp.float32(replay))
        self.params = {
            n: [{"w": p[0]["w"] + self.made.updates[n][0]["w"]}] if n in self.made.updates else p
            for n, p in self.params.items()
        }
        self.step += 1
        self.state = td.follow_td(self.rule, self.made.state, self.params, jnp.int32(self.step))
        return self

    def head(self, name="head"):
        return np.asarray(self.params[name][0]["w"])


def approx(values):
    return pytest.approx(np.array(values), rel=1e-5, abs=1e-6)


# the TD error ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terminated", "truncated", "delta"),
    [(False, False, 1.5), (False, True, 1.5), (True, False, -1.0), (True, True, -1.0)],
)
@pytest.mark.parametrize("rule", [Dqn(gamma=0.5), StreamQ(gamma=0.5), Qrc(gamma=0.5)])
def test_only_termination_stops_the_bootstrap(rule, terminated, truncated, delta):
    """1 + 5/2 - 2 = 1.5, and 1 - 2 = -1 without the successor's value."""
    made = Stream(rule, h=H).take(transition(EAST, 1, 1.0, WEST, terminated=terminated, truncated=truncated)).made
    assert made.metrics["td_error"] == pytest.approx(abs(delta))
    sign = np.sign(made.updates["head"][0]["w"][0, 1]) if not isinstance(rule, Qrc) else np.sign(delta)
    assert sign == np.sign(delta)


# streaming DQN --------------------------------------------------------------------------------------------------------


def test_two_steps_of_dqn_against_a_copy_that_is_renewed_after_the_second():
    stream = Stream(Dqn(lr=0.1, gamma=0.5, target=Copy(2)))
    assert stream.take(FIRST).head() == approx([[1, 2.15], [3, 5]])
    # The copy still says max Q(east) = 2: delta = -4 + 2/2 - 5 = -8.
    assert stream.take(SECOND).head() == approx([[1, 2.15], [3, 4.2]])
    # Now the copy knows 4.2: delta = 0 + 4.2/2 - 1 = 1.1.
    assert stream.take(transition(EAST, 0, 0.0, WEST)).head() == approx([[1.11, 2.15], [3, 4.2]])
    assert stream.params["encoder"][0]["w"] == 4.0


def test_a_copy_is_renewed_at_every_nth_step_only():
    stream = Stream(Dqn(lr=0.1, gamma=0.5, target=Copy(3)))
    copies = [float(stream.take(FIRST).state.target["head"][0]["w"][0, 1]) for _ in range(6)]
    # Towards 3.5 by a tenth of what is missing: 2.15, 2.285, 2.4065, 2.51585, 2.614265, 2.7028385.
    assert copies == approx([2, 2, 2.4065, 2.4065, 2.4065, 2.7028385])


def test_two_steps_of_dqn_against_an_average():
    stream = Stream(Dqn(lr=0.1, gamma=0.5, target=Polyak(0.75)))
    stream.take(FIRST)
    # 3/4 * 2 + 1/4 * 2.15 = 2.0375
    assert np.asarray(stream.state.target["head"][0]["w"]) == approx([[1, 2.0375], [3, 5]])
    # delta = -4 + 2.0375/2 - 5 = -7.98125
    assert stream.take(SECOND).head() == approx([[1, 2.15], [3, 5 - 0.798125]])
    assert float(stream.state.target["head"][0]["w"][0, 1]) == pytest.approx(0.75 * 2.0375 + 0.25 * 2.15)


def test_dqn_without_a_target_network_reads_the_present_values():
    stream = Stream(Dqn(lr=0.1, gamma=0.5, target=Online())).take(FIRST).take(SECOND)
    assert stream.head() == approx([[1, 2.15], [3, 5 + 0.1 * (-4 + 2.15 / 2 - 5)]])


def test_dqn_has_no_trace():
    stream = Stream(Dqn(lr=0.1, gamma=0.5)).take(FIRST)
    before = stream.head()[0, 1]
    assert stream.take(SECOND).head()[0, 1] == before


# DQN's memory ---------------------------------------------------------------------------------------------------------


recall = compiled(dqn.recall)


def drawn_rewards(size, draws):
    """The rewards learnt from when the i-th transition, counted from 1, has reward i."""
    state, found = dqn.init_memory(Replay(size), FIRST), []
    for i, draw in enumerate(draws, start=1):
        learnt, state = recall(Replay(size), state, transition(EAST, 0, float(i), WEST), jnp.float32(draw))
        found.append(float(learnt.reward))
    return found


def test_a_memory_of_one_is_the_latest_transition():
    assert drawn_rewards(1, [0.0, 0.99, 0.5, 0.3]) == [1, 2, 3, 4]


def test_a_draw_reaches_the_stored_transitions_only_and_the_present_one_is_among_them():
    # Slots: [1], [1 2], [1 2 3], [4 2 3], [4 5 3], [4 5 6], [7 5 6]; 0.99 is the last slot in use.
    assert drawn_rewards(3, [0.99] * 7) == [1, 2, 3, 3, 3, 6, 6]
    assert drawn_rewards(3, [0.0] * 7) == [1, 1, 1, 4, 4, 4, 7]
    assert drawn_rewards(3, [0.5] * 7) == [1, 2, 2, 2, 5, 5, 5]


def test_every_stored_transition_is_drawn_equally_often():
    """Once the memory is full the slot that was filled i steps ago is drawn by an interval of length 1/5."""
    draws = [0.0] * 9 + [0.1]
    found = [drawn_rewards(5, [*draws[:9], u])[-1] for u in (0.05, 0.25, 0.45, 0.65, 0.85)]
    assert sorted(found) == [6, 7, 8, 9, 10]


def test_the_memory_keeps_working_after_many_laps():
    found = drawn_rewards(2, [0.99] * 23)
    assert found[-4:] == [20, 20, 22, 22]


def test_dqn_learns_from_the_drawn_transition():
    stream = Stream(Dqn(lr=0.1, gamma=0.5, memory=Replay(2)))
    stream.take(FIRST)
    # 0.4 of two is the first one again: delta = 1 + 5/2 - 2.15 = 1.35; nothing happens at (west, 1).
    assert stream.take(SECOND, replay=0.4).head() == approx([[1, 2.285], [3, 5]])
    assert Dqn().memory == Latest()


# Stream Q(lambda) -----------------------------------------------------------------------------------------------------

STRQ = StreamQ(lr=1.0, gamma=0.5, lamda=0.5, kappa=2.0)


def test_two_steps_of_stream_q():
    stream = Stream(STRQ).take(FIRST)
    # M = 1 * 2 * 1.5 * 1 = 3, so the step is 1/3 * 1.5 = 0.5.
    assert stream.head() == approx([[1, 2.5], [3, 5]])
    stream.take(SECOND)
    # delta = -4 + 2.5/2 - 5 = -7.75; |z| = 1/4 + 1; M = 2 * 7.75 * 1.25, so the step is -z / 2.5.
    assert np.asarray(stream.state.trace["head"][0]["w"]) == approx([[0, 0.25], [0, 1]])
    assert stream.head() == approx([[1, 2.5 - 0.1], [3, 5 - 0.4]])


def test_a_small_error_counts_as_one_in_the_bound():
    stream = Stream(STRQ).take(transition(EAST, 1, -0.4, WEST))
    # delta = -0.4 + 2.5 - 2 = 0.1; M = 2 * 1 * 1; the step is 0.1 / 2.
    assert stream.head() == approx([[1, 2.05], [3, 5]])


def test_a_bound_below_one_leaves_the_learning_rate_alone():
    stream = Stream(StreamQ(lr=0.1, gamma=0.5, lamda=0.5, kappa=2.0)).take(FIRST)
    # M = 0.1 * 2 * 1.5 * 1 = 0.3 < 1; the step is 0.1 * 1.5.
    assert stream.head() == approx([[1, 2.15], [3, 5]])
    assert stream.made.metrics["step_size"] == pytest.approx(0.1)


def test_the_bound_counts_the_trace_of_every_module():
    stream = Stream(STRQ)
    trace = {**stream.state.trace, "encoder": [{"w": jnp.array([-12.0])}]}
    stream.state = stream.state._replace(trace=trace)
    stream.take(FIRST)
    # |z| = 12/4 + 1 = 4; M = 2 * 1.5 * 4 = 12; the step is 1.5 / 12 * z.
    assert stream.head() == approx([[1, 2.125], [3, 5]])
    assert stream.params["encoder"][0]["w"] == approx([4 - 3 * 0.125])


def test_stream_q_with_a_target_network_reads_it():
    stream = Stream(StreamQ(lr=0.1, gamma=0.5, lamda=0.0, kappa=0.0, target=Copy(1000))).take(FIRST).take(SECOND)
    assert stream.head() == approx([[1, 2.15], [3, 4.2]])


# SARSA(lambda) --------------------------------------------------------------------------------------------------------

EXPLORE, EXPLOIT = 0.05, 0.5  # epsilon is 0.1: the first is below it, and stands for action 0 as well


def test_two_steps_of_sarsa():
    stream = Stream(Sarsa(lr=1.0, gamma=0.5, lamda=0.5)).take(FIRST, EXPLORE)
    # Action 0 will be taken: delta = 1 + 3/2 - 2 = 0.5; M = 2, so the step is 0.5 / 2.
    assert stream.head() == approx([[1, 2.25], [3, 5]])
    # The best one will: delta = -4 + 2.25/2 - 5; the step is -z / 2.5, as for Stream Q.
    assert float(stream.take(SECOND, EXPLOIT).made.metrics["td_error"]) == pytest.approx(7.875)
    assert stream.head() == approx([[1, 2.15], [3, 4.6]])


def test_two_steps_of_expected_sarsa():
    stream = Stream(ExpectedSarsa(lr=0.1, gamma=0.5, lamda=0.5)).take(FIRST)
    # v = 0.05 * 3 + 0.95 * 5 = 4.9: delta = 1 + 2.45 - 2 = 1.45; M = 0.29 < 1.
    assert stream.head() == approx([[1, 2.145], [3, 5]])
    # v = 0.05 * 1 + 0.95 * 2.145 = 2.08775: delta = -7.956125; M = 0.2 * 7.956125 * 1.25, so the step is -0.4 z.
    assert float(stream.take(SECOND).made.metrics["td_error"]) == pytest.approx(7.956125)
    step = 0.1 * 7.956125 / (0.2 * 7.956125 * 1.25)
    assert stream.head() == approx([[1, 2.145 - step / 4], [3, 5 - step]])


@pytest.mark.parametrize("rule", [Sarsa(gamma=0.5, lamda=0.5), ExpectedSarsa(gamma=0.5, lamda=0.5)])
def test_an_action_that_is_not_the_best_keeps_the_trace_of_sarsa_and_an_end_does_not(rule):
    for end, kept in (({"greedy": False}, 1), ({"truncated": True}, 0), ({"terminated": True}, 0)):
        state = Stream(rule).take(transition(EAST, 1, 1.0, WEST, **end)).state
        assert np.count_nonzero(state.trace["head"][0]["w"]) == kept


# QRC(lambda) ----------------------------------------------------------------------------------------------------------

QRC = Qrc(lr=0.1, gamma=0.5, lamda=0.5, h_lr_scale=0.1, regularizer=1.0)


def test_two_steps_of_qrc():
    stream = Stream(QRC, h=H).take(FIRST)
    # h = 1; g_q = east,1; g_d = west,1 / 2 - east,1; all traces begin: z_h = 1.
    # (1.5 - 1 + 1) = 1.5 at (east, 1); -1/2 at (west, 1).
    assert stream.head() == approx([[1, 2.15], [3, 4.95]])
    # 0.01 * (1.5 - 1 - 1) at (east, 1); elsewhere a hundredth decays.
    assert stream.head("h_head") == approx([[0.495, 0.995], [-0.99, 1.98]])

    stream.take(SECOND)
    # q = 4.95, v = 2.15: delta = -7.875; h = 1.98; z_h = 0.25 + 1.98 = 2.23; z_w = 0.25 (east, 1) + (west, 1).
    # (east, 1): -7.875/4 - 2.23/2 = -3.08375;  (west, 1): -7.875 - 1.98 + 2.23 = -7.625.
    assert stream.head() == approx([[1, 2.15 - 0.308375], [3, 4.95 - 0.7625]])
    # (east, 1): -7.875/4 - 0.995 = -2.96375;  (west, 1): -7.875 - 1.98 - 1.98 = -11.835.
    assert stream.head("h_head") == approx([[0.49005, 0.995 - 0.0296375], [-0.9801, 1.98 - 0.11835]])
    assert float(stream.state.h_trace) == pytest.approx(2.23)


def test_every_parameter_of_h_decays_and_none_of_q_does():
    stream = Stream(QRC, h=H).take(FIRST).take(SECOND)
    assert stream.params["h_encoder"][0]["w"] == approx([4 * 0.99**2])
    assert stream.params["h_projection"][0]["w"] == approx([-2 * 0.99**2])
    assert stream.params["encoder"][0]["w"] == 4.0


def test_without_a_regulariser_h_does_not_decay():
    stream = Stream(Qrc(lr=0.1, gamma=0.5, lamda=0.5, regularizer=0.0), h=H).take(FIRST)
    assert stream.head("h_head") == approx([[0.5, 1.005], [-1, 2]])


def test_a_terminal_step_of_qrc_has_no_gradient_at_the_successor():
    stream = Stream(QRC, h=H).take(transition(EAST, 1, 1.0, WEST, terminated=True))
    # delta = -1: (-1 - 1 + 1) = -1 at (east, 1), nothing at (west, 1).
    assert stream.head() == approx([[1, 1.9], [3, 5]])


def test_two_steps_of_qrc_with_a_target_network():
    stream = Stream(Qrc(lr=0.1, gamma=0.5, lamda=0.5, target=Copy(2)), h=H).take(FIRST)
    # No gradient flows through the copy: g_d = -g_q.
    assert stream.head() == approx([[1, 2.15], [3, 5]])
    stream.take(SECOND)
    # The copy says 2: delta = -4 + 1 - 5 = -8; h = 1.98; z_h = 2.23: (east, 1): -8/4;  (west, 1): -8 - 1.98 + 2.23.
    assert stream.head() == approx([[1, 2.15 - 0.2], [3, 5 - 0.775]])
    assert np.asarray(stream.state.target["head"][0]["w"]) == approx(stream.head())


# traces end after the step --------------------------------------------------------------------------------------------

ENDS = [{"terminated": True}, {"truncated": True}, {"greedy": False}, {"terminated": True, "last": False}]


@pytest.mark.parametrize("end", ENDS)
def test_stream_q_uses_the_trace_in_the_step_that_ends_it(end):
    stream = Stream(STRQ).take(FIRST)
    before = stream.head()[0, 1]
    stream.take(transition(WEST, 1, -4.0, EAST, **end))
    assert stream.head()[0, 1] != before
    assert np.all(np.asarray(stream.state.trace["head"][0]["w"]) == 0)


@pytest.mark.parametrize("end", ENDS)
def test_qrc_uses_its_three_traces_in_the_step_that_ends_them(end):
    stream = Stream(QRC, h=H).take(FIRST)
    kept, decayed = stream.head()[0, 1], 0.99 * stream.head("h_head")[0, 1]
    stream.take(transition(WEST, 1, -4.0, EAST, **end))
    assert stream.head()[0, 1] != kept
    assert abs(stream.head("h_head")[0, 1] - decayed) > 1e-3
    state = stream.state
    assert float(state.h_trace) == 0
    assert not np.any(state.h_grad_trace["head"][0]["w"])
    assert not np.any(state.q_grad_trace["head"][0]["w"])


def test_a_greedy_step_inside_an_episode_keeps_the_trace():
    state = Stream(STRQ).take(FIRST).take(SECOND).state
    assert np.count_nonzero(state.trace["head"][0]["w"]) == 2


# what a step tells of itself ------------------------------------------------------------------------------------------


def test_overshoot_is_the_step_times_the_squared_gradient_over_what_a_trace_forgets():
    assert float(Stream(QRC, h=H).take(FIRST).made.metrics["overshoot"]) == pytest.approx(0.1 * 1 / 0.75)
    assert float(Stream(Dqn(lr=0.1)).take(FIRST).made.metrics["overshoot"]) == pytest.approx(0.1)


# the guard ------------------------------------------------------------------------------------------------------------

FAR = transition([4.0, 0.0], 1, 1.0, WEST)  # q = 8, with a gradient of 4; max Q(s') = 5, with one of 1


def test_dqn_learns_from_a_gradient_of_the_longest_norm_at_most():
    assert Stream(Dqn(lr=0.1, gamma=0.5, guard=Clip(2.0))).take(FAR).head() == approx([[1, 2 - 0.1 * 4.5 * 2], [3, 5]])
    assert Stream(Dqn(lr=0.1, gamma=0.5, guard=Unguarded())).take(FAR).head() == approx([[1, 0.2], [3, 5]])


def test_each_gradient_of_qrc_has_its_own_guard():
    stream = Stream(Qrc(lr=0.1, gamma=0.5, lamda=0.5, guard=Clip(2.0)), h=H).take(FAR)
    # delta = 1 + 5/2 - 8 = -4.5, h = 4: g_q and g_h are 2 at (east, 1); g_d = west,1 / 2 - 2 east,1; z_h = 4.
    # (east, 1): -4.5 * 2 - 4 * 2 + 4 * 2 = -9;  (west, 1): -4 / 2 = -2.
    assert stream.head() == approx([[1, 2 - 0.9], [3, 5 - 0.2]])
    # 0.01 (-4.5 * 2 - 4 * 2 - 1) at (east, 1).
    assert stream.head("h_head") == approx([[0.495, 1 - 0.18], [-0.99, 1.98]])
    near = Stream(Qrc(lr=0.1, gamma=0.5, lamda=0.5, guard=Clip(0.5)), h=H).take(FIRST)
    # delta = 1.5, h = 1: g_q = 1/2 east,1; g_d = west,1 / 4 - east,1 / 2: (0.75 - 0.5 + 0.5, -0.25).
    assert near.head() == approx([[1, 2.075], [3, 4.975]])


@pytest.mark.parametrize(("norm", "acted"), [(4.0, 0), (3.999, 1)])
def test_what_the_guard_did_is_told_and_a_gradient_that_is_short_enough_is_left_alone(norm, acted):
    stream = Stream(Dqn(lr=0.1, gamma=0.5, guard=Clip(norm))).take(FAR)
    told = stream.made.metrics
    assert told["guarded"] == acted
    assert told["q_gradient_norm"] == 4.0
    assert told["overshoot"] == pytest.approx(0.1 * norm**2)
