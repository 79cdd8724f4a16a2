"""The three rules on real networks, in float64, against NumPy: gradients there are differences, the equations are those
of the specification in its order. Parameters must agree to a millionth after every step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

from headrace.agents import Agent, Copy, Dqn, Latest, Online, Polyak, Qrc, Replay, StreamQ
from headrace.definition import td
from headrace.definition.evaluate import best
from headrace.definition.networks import layer_norm, q_values
from tests.definition import oracle
from tests.definition.support import IMAGE, VECTOR, compiled, experience, small, small_layout, start, td_step

update = compiled(td_step, static_argnums=1)
NAMES = ("encoder", "projection", "head")
REPLAY = [0.9, 0.1, 0.5, 0.7, 0.0, 0.4, 0.99]


class ByHand:
    """A rule written down once more, on vectors of parameters."""

    def __init__(self, rule, params, strides):
        self.rule, self.strides = rule, strides
        self.like = oracle.as_float64({n: params[n] for n in NAMES})
        self.w = oracle.vector(self.like)
        if isinstance(rule, Qrc):
            self.psi = oracle.vector(oracle.as_float64({n: params[f"h_{n}"] for n in NAMES}))
        self.target, self.memory, self.steps = self.w.copy(), [], 0
        self.z_w = self.z_psi = np.zeros_like(self.w)
        self.z_h = 0.0

    def q(self, weights, obs):
        return oracle.q_values(oracle.shaped(weights, self.like), np.asarray(obs, np.float64), self.strides)

    def slope(self, function, weights):
        return oracle.gradient(lambda m: function(oracle.vector(m)), oracle.shaped(weights, self.like))

    def learn(self, t, replay):
        rule = self.rule
        if isinstance(rule, Dqn) and isinstance(rule.memory, Replay):
            self.memory = remembered(self.memory, t, rule.memory.size, self.steps)
            t = self.memory[int(replay * len(self.memory))]
        gamma, a = rule.gamma * (1.0 - bool(t.terminated)), int(t.action)
        bootstrap = self.w if isinstance(rule.target, Online) else self.target
        delta = float(t.reward) + gamma * self.q(bootstrap, t.next_obs).max() - self.q(self.w, t.obs)[a]
        g_q = self.slope(lambda w: self.q(w, t.obs)[a], self.w)
        {Dqn: self.dqn, StreamQ: self.strq, Qrc: self.qrc}[type(rule)](t, gamma, a, delta, g_q)
        self.steps += 1
        if isinstance(rule.target, Copy) and self.steps % rule.target.every == 0:
            self.target = self.w.copy()
        if isinstance(rule.target, Polyak):
            self.target = rule.target.keep * self.target + (1 - rule.target.keep) * self.w

    def dqn(self, t, gamma, a, delta, g_q):
        self.w = self.w + self.rule.lr * delta * g_q

    def strq(self, t, gamma, a, delta, g_q):
        rule = self.rule
        self.z_w = rule.gamma * rule.lamda * self.z_w + g_q
        bound = rule.lr * rule.kappa * max(1.0, abs(delta)) * np.abs(self.z_w).sum()
        self.w = self.w + rule.lr / max(bound, 1.0) * delta * self.z_w
        self.forget(t)

    def qrc(self, t, gamma, a, delta, g_q):
        rule, keep = self.rule, self.rule.gamma * self.rule.lamda
        g_d = -g_q
        if isinstance(rule.target, Online):
            g_d = g_d + gamma * self.slope(lambda w: self.q(w, t.next_obs).max(), self.w)
        h, g_h = self.q(self.psi, t.obs)[a], self.slope(lambda p: self.q(p, t.obs)[a], self.psi)
        self.z_h, self.z_psi, self.z_w = keep * self.z_h + h, keep * self.z_psi + g_h, keep * self.z_w + g_q
        self.w = self.w + rule.lr * (delta * self.z_w - h * g_q - self.z_h * g_d)
        self.psi = self.psi + 0.1 * rule.lr * (delta * self.z_psi - h * g_h - rule.regularizer * self.psi)
        self.forget(t)

    def forget(self, t):
        if t.terminated or t.truncated or not t.greedy:
            self.z_w, self.z_psi, self.z_h = 0 * self.z_w, 0 * self.z_psi, 0.0


def remembered(memory, t, size, steps):
    """The ring after one more transition: the oldest is overwritten in place."""
    memory = [*memory, t] if len(memory) < size else memory
    memory[steps % size] = t
    return memory


class OfTheEngine:
    def __init__(self, rule, params, layout):
        self.rule, self.layout, self.step = rule, layout, 0
        self.params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), params)
        self.state = td.init_td(rule, self.params, experience(layout.observation_shape, 1)[0])

    def learn(self, t, replay):
        made = update(self.rule, self.layout, self.params, self.state, t, jnp.float64(replay))
        self.params = {n: jax.tree.map(jnp.add, p, made.updates[n]) for n, p in self.params.items()}
        self.step += 1
        self.state = td.follow_td(self.rule, made.state, self.params, jnp.int32(self.step))

    def weights(self, prefix=""):
        return oracle.vector(oracle.as_float64({n: self.params[prefix + n] for n in NAMES}))


RULES = [
    Dqn(lr=0.05, target=Copy(2)),
    Dqn(lr=0.05, target=Polyak(0.9), memory=Replay(3)),
    StreamQ(),
    StreamQ(lr=1e-3, kappa=0.5, target=Copy(3)),
    Qrc(lr=0.05),
    Qrc(lr=0.05, lamda=0.5, regularizer=3.0, target=Polyak(0.5)),
]


def compare(rule, network, steps):
    agent = small(Agent(rule), network)
    params, layout = start(agent, seed=4).params, small_layout(agent)
    with jax.enable_x64(True):
        by_hand = ByHand(rule, params, getattr(network, "strides", None))
        engine = OfTheEngine(rule, params, layout)
        begun = by_hand.w
        for t, replay in zip(experience(layout.observation_shape, steps, seed=2), REPLAY, strict=False):
            by_hand.learn(t, replay)
            engine.learn(t, replay)
            np.testing.assert_allclose(engine.weights(), by_hand.w, rtol=1e-6, atol=1e-8)
            if isinstance(rule, Qrc):
                np.testing.assert_allclose(engine.weights("h_"), by_hand.psi, rtol=1e-6, atol=1e-8)
        assert np.abs(by_hand.w - begun).max() > 1e-3


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_seven_steps_over_an_exploratory_one_and_an_end_are_those_computed_with_numpy(rule):
    compare(rule, VECTOR, 7)


def test_two_steps_of_qrc_on_images_are_those_computed_with_numpy():
    compare(Qrc(lr=0.05), IMAGE, 2)


def test_the_experience_of_these_tests_has_all_kinds_of_ends():
    seen = experience((3,), 11)
    assert [i for i, t in enumerate(seen, 1) if t.terminated] == [7]
    assert [i for i, t in enumerate(seen, 1) if t.truncated] == [11]
    assert [i for i, t in enumerate(seen, 1) if not t.greedy] == [4, 8]
    assert RULES[0].memory == Latest()


def test_the_gradient_of_layer_norm_is_that_of_differences():
    random = np.random.default_rng(0)
    x, weights = random.normal(size=(3, 2, 4)) * 0.01 + 3, random.normal(size=(3, 2, 4))
    by_hand = oracle.gradient(
        lambda m: float(
            (weights * (m["x"][0]["w"] - m["x"][0]["w"].mean()) / np.sqrt(m["x"][0]["w"].var() + 1e-5)).sum()
        ),
        {"x": [{"w": x}]},
    )
    with jax.enable_x64(True):
        found = jax.grad(lambda x: jnp.sum(weights * layer_norm(x)))(jnp.asarray(x))
        assert found.dtype == jnp.float64
        np.testing.assert_allclose(np.asarray(found).ravel(), by_hand, rtol=1e-6, atol=1e-6)


def eq_of_reals(jaxpr) -> bool:
    """Whether two floating-point numbers are asked to be equal anywhere in a program."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "eq" and jnp.issubdtype(equation.invars[0].aval.dtype, jnp.floating):
            return True
        if any(eq_of_reals(inner) for inner in jaxprs_in_params(equation.params)):
            return True
    return False


def test_the_gradient_of_max_q_is_that_of_the_first_best_action_and_compares_no_reals():
    """A compiler may round the two sides of an equality differently, and the gradient would be zero."""
    agent = small(Agent(Qrc()))
    layout, params = small_layout(agent), start(agent).params
    weights = {name: params[name] for name in NAMES}
    level = {**weights, "head": jax.tree.map(jnp.zeros_like, weights["head"])}  # every action has the value 0
    t = experience(layout.observation_shape, 1)[0]

    def best_next(w):
        return best(q_values(layout, w, t.next_obs))

    slopes = jax.grad(best_next)(level)["head"][0]["w"]
    assert (np.abs(slopes).max(axis=0) > 0).tolist() == [True] + [False] * (layout.n_actions - 1)
    assert not eq_of_reals(jax.make_jaxpr(jax.grad(best_next))(weights).jaxpr)
    assert eq_of_reals(jax.make_jaxpr(jax.grad(jnp.max))(jnp.ones(3)).jaxpr)
