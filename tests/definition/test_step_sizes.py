"""The step sizes of Stream Q(lambda): numbers of two steps by hand, and what each promises of the next value."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import (
    Adaptive,
    Agent,
    DecayedMaximum,
    Implicit,
    Intentional,
    ObGd,
    Sgd,
    StreamQ,
    agent_named,
    tweak,
)
from headrace.definition.evaluate import Value
from headrace.definition.networks import q_values
from headrace.definition.rules.step_sizes import Pace, init_step_size, sized
from headrace.errors import BadSetting
from tests.definition.support import (
    SHAPES,
    VECTOR,
    draws_of,
    experience,
    flat,
    learn_compiled,
    run,
    small,
    small_layout,
    start,
    transition,
)

PACE = Pace(lr=0.5, kappa=2.0, decay=0.25)


def tree(*numbers):
    return {"head": [{"w": jnp.array(numbers, jnp.float32)}]}


def numbers(found):
    return np.asarray(found["head"][0]["w"]).tolist()


def two_steps(step_size):
    """delta = 2, g = (3, 4), z = (3, 4), grad delta = (-2, -4); then -1, (0, 2), (0.75, 3) and (0, 1)."""
    deltas = Value(jnp.float32(2), tree(-2, -4)), Value(jnp.float32(-1), tree(0, 1))
    first = sized(step_size, PACE, deltas[0], tree(3, 4), tree(3, 4), init_step_size(step_size, tree(0, 0)))
    return first, sized(step_size, PACE, deltas[1], tree(0, 2), tree(0.75, 3), first.state)


def test_plain_steps():
    for step, delta, trace in zip(two_steps(Sgd()), (2, -1), ([3, 4], [0.75, 3]), strict=True):
        assert (float(step.size), float(step.delta), numbers(step.direction)) == (0.5, delta, trace)


def test_obgd_divides_by_the_bound_where_that_is_above_one():
    """M = 0.5 * 2 * 2 * 7 = 14, and 0.5 * 2 * 1 * 3.75 = 3.75."""
    first, second = two_steps(ObGd())
    assert [float(first.size), float(second.size)] == pytest.approx([0.5 / 14, 0.5 / 3.75])


def test_adaptive():
    """v = 0.75 (9, 16) = (6.75, 12); then (1.6875, 3 + 0.75 * 4) = (1.6875, 6). The error is limited to 1."""
    first, second = two_steps(Adaptive(epsilon=0.5))
    assert (float(first.size), float(first.delta), float(second.delta)) == (0.5, 1, -1)
    assert numbers(first.direction) == pytest.approx([3 / (6.75**0.5 + 0.5), 4 / (12**0.5 + 0.5)])
    assert numbers(second.direction) == pytest.approx([0.75 / (1.6875**0.5 + 0.5), 3 / (6**0.5 + 0.5)])


def test_intentional():
    """With beta 1/2: m = |g| = (3, 4) at first, sigma = sum g^2/m = 7 and sum z^2/m = 7: steps of 0.5 / 7.

    Then v = (4.5 / 2, 8 / 2 + 4 / 2) of weight 3/4: m = sqrt(3, 8). sigma = 7 * 3/4 / 4 + 3/4 * 4 / sqrt(8), of weight
    15/16. The mean of delta^2 is (4 / 2) / 2 + 1 / 2 = 1.5, of weight 3/4: 2.
    """
    first, second = two_steps(Intentional(beta=0.5, clip=0.5, error_beta=0.5))
    assert float(first.size) == pytest.approx(0.5 / 7)
    assert numbers(first.direction) == pytest.approx([1, 1])
    assert float(first.delta) == pytest.approx(0.5 * 2)
    m = np.sqrt([4.5 / 2 / 0.75, (16 / 4 + 4 / 2) / 0.75])
    sigma = (7 * 0.75 / 4 + 0.75 * 4 / m[1]) / (15 / 16)
    assert float(second.size) == pytest.approx(0.5 / np.sqrt(sigma * (0.75**2 / m[0] + 9 / m[1])), rel=1e-5)
    assert numbers(second.direction) == pytest.approx([0.75 / m[0], 3 / m[1]], rel=1e-5)
    assert float(second.delta) == pytest.approx(-0.5 * np.sqrt(2), rel=1e-5)


def test_implicit():
    """m = 1 at first, of v before the step: b = sqrt(25 * 25), c = (2, 4) (3, 4) = 22, and 0.5 / (25 + 0.5 * 22).

    Then v = (1 / 2 + 9 / 2, 1 / 2 + 16 / 2) = (5, 8.5), whatever g is now, and c is negative: b stays, floor times.
    """
    first, second = two_steps(Implicit(beta=0.5, clip=0.5, error_beta=0.5, floor=1.25))
    assert numbers(first.direction) == pytest.approx([3, 4])
    assert [float(first.size), float(first.delta)] == pytest.approx([0.5 / 36, 1])
    m = np.sqrt([5, 8.5])
    sigma = (25 * 0.75 / 4 + 0.75 * 4 / m[1]) / (15 / 16)
    b = np.sqrt(sigma * (0.75**2 / m[0] + 9 / m[1]))
    assert numbers(second.direction) == pytest.approx([0.75 / m[0], 3 / m[1]], rel=1e-5)
    assert float(second.size) == pytest.approx(0.5 / (1.25 * b), rel=1e-5)


def test_decayed_maximum():
    """v = |delta z| = (6, 8); then max(v / 2, |delta z|) = (3, 4) against (0.75, 3)."""
    first, second = two_steps(DecayedMaximum(beta=0.5, epsilon=1.0))
    assert [float(step.size) for step in (first, second)] == [0.5, 0.5]
    assert [float(step.delta) for step in (first, second)] == [2, -1]
    assert numbers(first.direction) == pytest.approx([3 / 7, 4 / 9])
    assert numbers(second.direction) == pytest.approx([0.75 / 4, 3 / 5])


def test_an_intentional_step_changes_q_by_the_intended_fraction_of_the_error():
    """Without a trace and at the first step, the value moves by lr * delta, as far as it is linear."""
    agent = small(Agent(StreamQ(lr=1e-3, lamda=0.0, step_size=Intentional())))
    state, layout = start(agent), small_layout(agent)
    t = transition([0.5, -1.0, 2.0], 1, 1.0, [1.0, 0.0, -0.5])
    before, reached = (q_values(layout, state.params, obs) for obs in (t.obs, t.next_obs))
    after, learnt = learn_compiled(agent, layout, state, t, draws_of(agent, 0))
    delta = 1 + 0.99 * float(reached.max()) - float(before[1])
    assert float(learnt.always["td_error"]) == pytest.approx(abs(delta), rel=1e-5)
    moved = float(q_values(layout, after.params, t.obs)[1] - before[1])
    assert moved == pytest.approx(1e-3 * delta, rel=0.02)


ELSE = [pytest.param(other, marks=pytest.mark.long) for other in (ObGd(), Sgd(), Adaptive(), Intentional())]


@pytest.mark.parametrize("step_size", [Implicit(), DecayedMaximum(), *ELSE])
def test_orth2_leaves_of_the_auxiliary_what_is_orthogonal_to_the_actual_rl_update(step_size):
    """Three steps in, so that traces and scales have a past. The RL update is what is left without an auxiliary."""
    base = tweak(small(agent_named("strq+spr+orth2")), "aux.lr=0.05", "aux.objective.horizon=1")
    agent = replace(base, td=StreamQ(lr=0.1, step_size=step_size))
    layout, seen = small_layout(agent), experience(SHAPES[VECTOR], 5, seed=3)
    state = run(agent, start(agent), seen[:3])
    both, alone = (
        learn_compiled(tweak(agent, f"aux.weight={weight}"), layout, state, seen[4], draws_of(agent, 4))[0].params
        for weight in (2, 0)
    )
    for n in ("encoder", "projection"):
        rl, aux = flat(alone[n]) - flat(state.params[n]), flat(both[n]) - flat(alone[n])
        assert np.linalg.norm(rl) > 0
        assert np.linalg.norm(aux) > 0
        assert abs(rl @ aux) < 1e-3 * np.linalg.norm(rl) * np.linalg.norm(aux)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Adaptive(epsilon=0), "Adaptive.epsilon must be > 0, got 0.0"),
        (lambda: Intentional(beta=1), "beta and error_beta must be < 1"),
        (lambda: StreamQ(gamma=1, lamda=1, step_size=Intentional()), "need gamma . lamda < 1"),
        (lambda: tweak(StreamQ(), "step_size=Qrc"), r"ObGd \| Sgd \| Adaptive \| Intentional"),
        (lambda: Implicit(floor=0), "Implicit.floor must be > 0, got 0.0"),
        (lambda: StreamQ(gamma=1, lamda=1, step_size=Implicit()), "Implicit steps need gamma . lamda < 1"),
        (lambda: DecayedMaximum(epsilon=0), "DecayedMaximum.epsilon must be > 0, got 0.0"),
    ],
)
def test_a_step_size_that_would_divide_by_zero_is_refused(build, message):
    with pytest.raises(BadSetting, match=message):
        build()


def test_the_usual_step_size_is_neither_written_nor_printed():
    assert repr(StreamQ()) == "StreamQ(lr=1.0, gamma=0.99, lamda=0.8, kappa=2.0, target=Online())"
    assert small(Agent(StreamQ()), VECTOR).td.step_size == ObGd()
