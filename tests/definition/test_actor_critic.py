"""Stream AC(lambda): two steps by hand, policies against independent formulas, and what shared modules take."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import (
    ActorCritic,
    Agent,
    EpsilonGreedy,
    Implicit,
    Intentional,
    Mlp,
    OneEncoder,
    OwnEncoder,
    Spr,
    agent_named,
    tweak,
)
from headrace.definition import evaluate as evaluation
from headrace.definition.evaluate import actor_modules, evaluate
from headrace.definition.networks import Layout, action_vectors, layout_of, outputs
from headrace.definition.policies import (
    Gaussian,
    Softmax,
    entropy,
    greedy_action,
    log_prob,
    policy_of,
    preferences,
    sample,
)
from headrace.definition.step import act, draw_step, init_agent, learn
from headrace.definition.td import init_td, update_td
from headrace.definition.transition import Draws, StepContext
from headrace.errors import BadSetting
from tests.definition.support import (
    SHAPES,
    VECTOR,
    compiled,
    dense_params,
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

EAST, WEST = [1.0, 0.0], [0.0, 1.0]
CONTEXT = StepContext(jnp.int32(0), jnp.float32(0), Draws(*[jnp.zeros(())] * 5))
BOX = Layout(VECTOR, (3,), 2, 2, box=True)


def three_quarters(sign, action):
    """grad log pi + sign/2 grad H by preference, where pi = (1/4, 3/4): dH/dp_a = - pi_a (log pi_a + H)."""
    pi = np.array([0.25, 0.75])
    h = -np.sum(pi * np.log(pi))
    return np.eye(2)[action] - pi - sign * 0.5 * pi * (np.log(pi) + h)


def test_two_steps_by_hand(monkeypatch):
    """V and preferences are tables, by state. delta = 1 + 5/2 - 2 = 1.5, then -4 + 2.5/2 - 5 = -7.75."""
    monkeypatch.setattr(evaluation, "outputs", lambda layout, w, obs: [obs @ layer["w"] for layer in w["head"]])
    beside = {name: [{"w": jnp.zeros(1)}] for name in ("encoder", "projection", "pi_encoder", "pi_projection")}
    preference = np.array([[0, np.log(3)], [0, np.log(3)]])
    tables = {"head": [{"w": jnp.array([[2.0], [5.0]])}], "pi_head": [{"w": jnp.array(preference, jnp.float32)}]}
    rule = ActorCritic(gamma=0.5, lamda=0.5, kappa=2.0, actor_kappa=3.0, entropy=0.5)
    layout, params = Layout(Mlp(), (2,), 2, 2), {**beside, **tables}
    state = init_td(rule, params, None)

    def take(params, state, t):
        made = update_td(rule, evaluate(rule, layout, params, state, t, CONTEXT), params, state, t, CONTEXT)
        moved = {n: [{"w": x[0]["w"] + made.updates[n][0]["w"]}] for n, x in params.items()}
        return moved, made

    params, made = take(params, state, transition(EAST, 1, 1.0, WEST))
    assert np.asarray(params["head"][0]["w"])[:, 0] == pytest.approx([2.5, 5])  # M = 2 * 1.5
    first = three_quarters(1, 1)
    preference[0] += first * 1.5 / (3 * 1.5 * np.abs(first).sum())
    assert np.asarray(params["pi_head"][0]["w"]) == pytest.approx(preference, rel=1e-5)

    params, made = take(params, made.state, transition(WEST, 0, -4.0, EAST))
    assert np.asarray(params["head"][0]["w"])[:, 0] == pytest.approx([2.4, 4.6])  # M = 2 * 7.75 * 1.25
    trace = np.stack([first / 4, three_quarters(-1, 0)])
    assert np.asarray(made.state.policy_trace["head"][0]["w"]) == pytest.approx(trace, rel=1e-5)
    preference += -7.75 * trace / (3 * 7.75 * np.abs(trace).sum())
    assert np.asarray(params["pi_head"][0]["w"]) == pytest.approx(preference, rel=1e-5)

    for end, kept in (({"greedy": False}, True), ({"truncated": True}, False), ({"terminated": True}, False)):
        after = take(params, made.state, transition(WEST, 0, -4.0, EAST, **end))[1].state
        assert (np.any(flat(after.value_trace)), np.any(flat(after.policy_trace))) == (kept, kept)


# policies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("box", "action"), [(False, 1), (True, [0.3, -2.0])])
def test_gradients_of_log_pi_and_of_the_entropy_are_finite_differences(box, action):
    agent = small(agent_named("ac"))
    layout = layout_of(agent, (3,), 2, box=box)
    shapes = jax.eval_shape(lambda key: init_agent(agent, layout, key), jax.random.key(0)).params
    with jax.enable_x64(True):
        params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), dense_params(shapes))
        along = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), dense_params(shapes, seed=1))
        obs = jnp.array([0.5, -1.0, 2.0], jnp.float64)
        t = transition(obs, 0, 0.0, obs)._replace(action=jnp.asarray(action), obs=obs, next_obs=obs)

        @compiled
        def values(h):
            moved = jax.tree.map(lambda w, d: w + h * d, params, along)
            return evaluate(agent.td, layout, moved, (), t, CONTEXT)

        here, up, down = values(0.0), values(1e-5), values(-1e-5)
        for name in ("log_pi", "entropy"):
            slope = (getattr(up, name).value - getattr(down, name).value) / 2e-5
            gradient = getattr(here, name).gradient
            own = {n: along[f"pi_{n}"] for n in gradient}
            assert float(flat(gradient) @ flat(own)) == pytest.approx(float(slope), rel=1e-6)
            assert abs(slope) > 1e-3


def test_a_softmax_is_its_definition_and_what_is_no_action_counts_for_nothing():
    p = np.exp([0.5, -1.0]) / np.exp([0.5, -1.0]).sum()
    policy = policy_of(Layout(VECTOR, (3,), 3, 2), [jnp.array([0.5, -1.0, 9.0])])
    assert isinstance(policy, Softmax)
    assert [float(log_prob(policy, a)) for a in (0, 1)] == pytest.approx(np.log(p))
    assert float(entropy(policy)) == pytest.approx(-np.sum(p * np.log(p)))
    grid = (np.stack(np.meshgrid(*[np.arange(40) + 0.5] * 3), -1).reshape(-1, 3) / 40).astype(np.float32)
    drawn = np.asarray(compiled(jax.vmap(lambda u: greedy_action(preferences(policy, u))))(grid))
    assert np.bincount(drawn, minlength=3) / len(drawn) == pytest.approx([*p, 0], abs=0.01)


def test_a_gaussian_is_its_definition():
    raw = jnp.array([0.3, -2.0, 5.0])
    policy = policy_of(Layout(VECTOR, (3,), 3, 2, box=True), [jnp.array([1.0, -1.0, 7.0]), raw])
    assert isinstance(policy, Gaussian)
    mean, scale, action = np.array([1, -1]), np.log1p(np.exp([0.3, -2.0])), np.array([0.5, -0.8])
    density = np.exp(-((action - mean) ** 2) / (2 * scale**2)) / (scale * np.sqrt(2 * np.pi))
    assert float(log_prob(policy, jnp.array([0.5, -0.8, 3.0]))) == pytest.approx(np.log(density).sum(), rel=1e-5)
    assert float(entropy(policy)) == pytest.approx(np.sum(0.5 * np.log(2 * np.pi * np.e * scale**2)), rel=1e-5)
    quantiles = sample(policy, jnp.array([0.5, 0.8413447, 0.1]))
    assert np.asarray(quantiles) == pytest.approx([1, -1 + scale[1], 0], rel=1e-4)
    assert np.isfinite(sample(policy, jnp.zeros(3))).all()


def test_actions_in_a_box_follow_the_policy_or_are_uniform_and_are_never_nan():
    agent = small(agent_named("ac"))
    params = dense_params(jax.eval_shape(lambda key: init_agent(agent, BOX, key), jax.random.key(0)).params)
    obs, draws = jnp.array([0.5, -1.0, 2.0]), draw_step(agent, BOX, *jax.random.split(jax.random.key(3)))
    policy = policy_of(BOX, outputs(BOX, actor_modules(params), obs))
    own, random = (act(agent, BOX, params, obs, eps, draws) for eps in (0.0, 1.0))
    assert np.asarray(own.action) == pytest.approx(np.asarray(sample(policy, draws.policy[:, 0])))
    assert np.asarray(random.action) == pytest.approx(2 * np.asarray(draws.policy[:, 1]) - 1)
    assert (bool(own.greedy), bool(random.greedy)) == (True, False)
    broken = jax.tree.map(lambda x: x * jnp.nan, params)
    assert np.asarray(act(agent, BOX, broken, obs, 0.0, draws).action).tolist() == [0, 0]


def test_a_stream_draws_the_same_numbers_with_room_for_more_actions():
    agent = small(agent_named("ac+spr"))
    keys = jax.random.split(jax.random.key(0))
    narrow, wide = (draw_step(agent, replace(BOX, n_actions=n), *keys) for n in (2, 5))
    np.testing.assert_array_equal(narrow.policy, wide.policy[:2])
    np.testing.assert_array_equal(narrow.aux, wide.aux)


def test_the_dynamics_take_the_numbers_that_act():
    assert np.asarray(action_vectors(BOX, jnp.array([[0.5, -3.0]]))).tolist() == [[0.5, -1.0]]
    assert np.asarray(action_vectors(Layout(VECTOR, (3,), 2, 2), jnp.array([1]))).tolist() == [[0.0, 1.0]]


# with an auxiliary ----------------------------------------------------------------------------------------------------

KINDS = [
    (OwnEncoder(), Intentional()),
    pytest.param(OneEncoder(), Implicit(), marks=pytest.mark.long),
    pytest.param(OneEncoder(), Intentional(), marks=pytest.mark.long),
]


@pytest.mark.parametrize(("encoder", "step_size"), KINDS)
def test_orth2_leaves_what_is_orthogonal_to_the_update_of_the_critics_encoder(encoder, step_size):
    base = tweak(small(agent_named("ac+spr+orth2")), "aux.lr=0.05", "aux.objective.horizon=1")
    agent = replace(base, td=ActorCritic(lr=0.1, actor_lr=0.1, encoder=encoder, step_size=step_size))
    layout, seen = small_layout(agent), experience(SHAPES[VECTOR], 5, seed=3)
    state = run(agent, start(agent), seen[:3])
    both, alone = (
        learn_compiled(tweak(agent, f"aux.weight={weight}"), layout, state, seen[4], draws_of(agent, 4))[0].params
        for weight in (2, 0)
    )
    for n in ("encoder", "projection"):
        rl, aux = flat(alone[n]) - flat(state.params[n]), flat(both[n]) - flat(alone[n])
        assert min(np.linalg.norm(rl), np.linalg.norm(aux)) > 0
        assert abs(rl @ aux) < 1e-3 * np.linalg.norm(rl) * np.linalg.norm(aux)
    for n in (name for name in both if name.startswith("pi_")):
        np.testing.assert_array_equal(flat(both[n]), flat(alone[n]))


def test_one_encoder_takes_the_updates_of_both():
    """With the critic or the actor standing still, the other one's update is left."""
    agents = {
        name: replace(small(agent_named("ac")), td=ActorCritic(lr=lr, actor_lr=actor_lr, encoder=OneEncoder()))
        for name, lr, actor_lr in (("both", 0.1, 0.1), ("critic", 0.1, 0), ("actor", 0, 0.1))
    }
    state, layout = start(agents["both"]), small_layout(agents["both"])
    assert "pi_encoder" not in state.params
    t = transition([0.5, -1.0, 2.0], 1, 1.0, [1.0, 0.0, -0.5])
    moved = {
        name: flat(learn_compiled(agent, layout, state, t, draws_of(agent, 0))[0].params["encoder"])
        - flat(state.params["encoder"])
        for name, agent in agents.items()
    }
    assert moved["both"] == pytest.approx(moved["critic"] + moved["actor"], abs=1e-6)
    assert np.linalg.norm(moved["actor"]) > 0


def test_thirty_steps_in_a_box_with_spr_stay_finite():
    agent = small(agent_named("ac+spr+orth2"))
    random = np.random.default_rng(0)
    state = init_agent(agent, BOX, jax.random.key(0))
    step = compiled(learn)
    for t in experience(SHAPES[VECTOR], 30):
        t = t._replace(action=jnp.asarray(random.normal(size=2), jnp.float32))
        state, learnt = step(
            agent, BOX, state, t, jnp.float32(0), draw_step(agent, BOX, *jax.random.split(jax.random.key(1)))
        )
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((state, learnt)))
    assert state.params["dynamics"][0]["w"].shape == (5 + 2, 5)
    assert [layer["w"].shape for layer in state.params["pi_head"]] == [(4, 2)] * 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layout_of(agent_named("qrc"), (3,), 2, box=True), "Qrc compares a few actions by number"),
        (lambda: ActorCritic(actor_step_size=Implicit()), "set actor_step_size=Intentional"),
        (lambda: ActorCritic(gamma=1, lamda=1, step_size=Intentional()), "need gamma . lamda < 1"),
        (lambda: ActorCritic(entropy=-1), "ActorCritic.entropy must be >= 0.0, got -1"),
    ],
)
def test_what_does_not_go_together_is_refused(build, message):
    with pytest.raises(BadSetting, match=message):
        build()


def test_exploration_on_top_of_a_policy_is_off_until_it_is_set():
    agent = agent_named("ac")
    assert agent.explore == EpsilonGreedy(start=0.0, end=0.0)
    assert isinstance(agent_named("ac+spr").aux.objective, Spr)
    assert isinstance(agent, Agent)
