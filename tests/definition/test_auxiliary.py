"""The auxiliary stream as it moves an agent: direction, strength, when it is active, what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import (
    Agent,
    Auxiliary,
    AuxOrthogonalToTd,
    Average,
    Copy,
    Dqn,
    Every,
    Greedy,
    MeanOverHorizon,
    Mix,
    Orth,
    PcGrad,
    Polyak,
    Projected,
    Qrc,
    Raw,
    RawCurrent,
    SharedFlipped,
    Spr,
    StreamQ,
    Sum,
    Unfiltered,
    agent_named,
    tweak,
)
from headrace.definition.augment import views
from headrace.definition.auxiliary import AuxStep, aux_metrics
from headrace.definition.objectives import aux_loss
from headrace.definition.windows import push
from tests.definition.support import (
    SHAPES,
    VECTOR,
    compiled,
    dense_params,
    draws_of,
    experience,
    flat,
    learn_compiled,
    learn_eagerly,
    run,
    small,
    small_layout,
    start,
    transition,
)

SHARED, OWN = ("encoder", "projection"), ("dynamics", "predictor")
loss_of = compiled(aux_loss, static_argnums=1)
gradient_of = compiled(jax.grad(aux_loss, argnums=2), static_argnums=1)
EXPERIENCE = experience(SHAPES[VECTOR], 30)
SPR = Auxiliary(Spr(2), weight=2.0, lr=1e-3)
ORTH = replace(SPR, filter=Orth())


def in_mid_stream(state):
    """One transition is in the window already; traces and histories have random numbers."""
    aux, td = state.aux, state.td
    window = aux.window._replace(observations=dense_params(aux.window.observations, 7, 1.0), held=jnp.int32(1))
    traces = {name: dense_params(getattr(td, name), 8) for name in td._fields if name.endswith("trace")}
    aux = aux._replace(window=window, history=dense_params(aux.history, 9))
    return state._replace(td=td._replace(**traces), aux=aux, merge=dense_params(state.merge, 10))


def one_step(agent):
    """An agent in mid-stream before and after one step, and its SPR loss with the named modules taken from after it,
    on the same window and with the same draws and truths."""
    layout, state = small_layout(agent), in_mid_stream(start(agent))
    t, draws = EXPERIENCE[0], draws_of(agent, 0)
    window, _ = push(agent.aux.objective, state.aux.window, t)
    assert window.ready
    after, learnt = learn_eagerly(agent, layout, state, t, draws)

    def loss(moved):
        params = {**state.params, **{n: after.params[n] for n in moved}}
        modules = {n: params[n] for n in (*SHARED, *OWN)}
        return float(loss_of(agent.aux.objective, layout, modules, state.params, window, views(draws.aux)))

    assert float(learnt.aux["aux_loss"]) == pytest.approx(loss(()), rel=1e-5)
    return state, after, loss


RULES = [Dqn(lr=0.0), StreamQ(lr=0.0), Qrc(lr=0.0)]
LONG = pytest.mark.long
MERGES = [Sum(), Mix(), AuxOrthogonalToTd(), AuxOrthogonalToTd(Average(), Sum()), PcGrad()]


# Every merge once, and every rule; the long run has all pairs.
USUAL = [(Dqn, Sum()), (StreamQ, Mix()), (Qrc, AuxOrthogonalToTd()), (StreamQ, MERGES[3]), (Qrc, PcGrad())]
PAIRS = [
    pytest.param(rule, merge, id=f"{type(rule).__name__}-{merge}", marks=[] if (type(rule), merge) in USUAL else LONG)
    for rule in RULES for merge in MERGES
]  # fmt: skip


@pytest.mark.parametrize(("rule", "merge"), PAIRS)
def test_an_spr_only_step_lowers_the_spr_loss(rule, merge):
    """In the encoder and projection alone, in dynamics and predictor alone, and in all of them."""
    _, _, loss = one_step(small(Agent(rule, ORTH, merge=merge)))
    before = loss(())
    assert loss(SHARED) < before
    assert loss(OWN) < before
    assert loss((*SHARED, *OWN)) < before


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_with_the_released_sign_the_shared_modules_ascend_the_spr_loss_and_the_others_descend(rule):
    _, _, loss = one_step(small(Agent(rule, SPR, merge=SharedFlipped())))
    assert loss(SHARED) > loss(())
    assert loss(OWN) < loss(())


@pytest.mark.parametrize(
    "filter_",
    [
        Unfiltered(),
        *(pytest.param(Orth(history=h), marks=LONG) for h in (Raw(), RawCurrent())),
        Orth(history=Projected()),
    ],
    ids=repr,
)
def test_a_mean_over_the_horizon_is_the_sum_at_a_part_of_the_weight(filter_):
    """So the two readings of the loss are told apart by runs that differ in weight alone."""
    spr = replace(SPR, filter=filter_)
    mean = replace(spr, objective=replace(spr.objective, reduce=MeanOverHorizon()))
    summed = replace(spr, weight=spr.weight / spr.objective.horizon)
    ends = [
        run(agent, start(agent), EXPERIENCE) for agent in (small(Agent(Qrc(lr=1e-3), aux)) for aux in (mean, summed))
    ]
    begun = start(small(Agent(Qrc(lr=1e-3), mean)))
    for name in (*SHARED, *OWN):
        moved = [flat(end.params[name]) - flat(begun.params[name]) for end in ends]
        assert np.abs(moved[0]).max() > 1e-4
        np.testing.assert_allclose(*moved, rtol=0, atol=1e-4 * np.abs(moved[0]).max())


@pytest.mark.parametrize(("merge", "share"), [(Sum(), 1.0), (Mix(0.75), 0.25)])
def test_shared_modules_move_by_minus_rate_times_weight_times_the_gradient(merge, share):
    agent = small(Agent(StreamQ(lr=0.0), SPR, merge=merge))
    state, after, _ = one_step(agent)
    layout, objective = small_layout(agent), agent.aux.objective
    window, _ = push(objective, state.aux.window, EXPERIENCE[0])
    modules = {n: state.params[n] for n in (*SHARED, *OWN)}
    gradient = gradient_of(objective, layout, modules, state.params, window, views(draws_of(agent, 0).aux))
    for names, factor in ((SHARED, share), (OWN, 1.0)):
        for n in names:
            wanted = flat(state.params[n]) - factor * 1e-3 * 2.0 * flat(gradient[n])
            np.testing.assert_allclose(flat(after.params[n]), wanted, rtol=1e-4, atol=1e-6)


def test_both_streams_read_the_parameters_of_before_the_step():
    """However far values move in a step, the auxiliary's own modules do not notice; nor the reverse."""
    (_, still, _), (_, moving, _), (_, alone, _) = (
        one_step(small(Agent(Qrc(lr=lr), replace(SPR, weight=weight))))
        for lr, weight in ((0.0, 2.0), (0.1, 2.0), (0.1, 0.0))
    )
    for n in OWN:
        assert np.array_equal(flat(still.params[n]), flat(moving.params[n]))
    assert not np.array_equal(flat(still.params["encoder"]), flat(moving.params["encoder"]))
    for n in ("head", "h_encoder"):
        assert np.array_equal(flat(alone.params[n]), flat(moving.params[n]))
    assert not np.array_equal(flat(alone.params["encoder"]), flat(moving.params["encoder"]))


def test_the_target_of_the_values_follows_the_parameters_of_after_the_step():
    agent = small(Agent(Dqn(lr=0.1, target=Copy(1))))
    after = run(agent, start(agent), EXPERIENCE[:1], learn_eagerly)
    assert np.array_equal(flat(after.td.target), flat({n: after.params[n] for n in after.td.target}))
    assert not np.array_equal(flat(after.td.target), flat(start(agent).td.target))


@pytest.mark.parametrize("name", ["dqn", "strq", "qrc"])
def test_a_weightless_auxiliary_changes_nothing(name):
    """Over thirty steps with ends of all kinds, but for what two programs round otherwise."""
    base = small(agent_named(name))
    weightless = replace(base, aux=replace(SPR, weight=0.0), merge=Sum())
    beside = start(weightless)
    alone = start(base, params={n: beside.params[n] for n in start(base).params})
    after_alone, after_beside = run(base, alone, EXPERIENCE), run(weightless, beside, EXPERIENCE)
    for n in after_alone.params:
        np.testing.assert_allclose(flat(after_beside.params[n]), flat(after_alone.params[n]), 1e-4, 1e-5, err_msg=n)
    np.testing.assert_allclose(flat(after_beside.td), flat(after_alone.td), 1e-4, 1e-5)
    assert not np.array_equal(flat(after_alone.params), flat(alone.params))


@pytest.mark.parametrize(("merge", "angle"), [(Mix(), "slanting"), (AuxOrthogonalToTd(), "right")])
def test_orth2_leaves_the_encoder_and_the_projection_orthogonal_to_the_trace(merge, angle):
    state, after, _ = one_step(small(Agent(StreamQ(lr=0.0), replace(SPR, lr=0.05), merge=merge)))
    for n in SHARED:
        moved, trace = flat(after.params[n]) - flat(state.params[n]), flat(after.td.trace[n])
        cosine = moved @ trace / np.linalg.norm(moved) / np.linalg.norm(trace)
        assert (abs(cosine) < 1e-3) == (angle == "right"), cosine


def test_cosines_are_told_before_the_filter_and_after_it():
    """RL moves along x, the auxiliary's gradient points along (3, 4), and what the filter leaves of it along y."""
    x, slanting, y = ({"encoder": [{"w": jnp.array(w)}]} for w in ([2.0, 0.0], [3.0, 4.0], [0.0, 4.0]))
    step = AuxStep(y, slanting["encoder"], (), jnp.bool_(True), jnp.float32(0), jnp.float32(0))
    told = aux_metrics(SPR, step, x)
    assert (told["cosine_before_orth"], told["cosine_before_orth2"]) == (pytest.approx(0.6), 0.0)
    assert float(told["aux_update_norm"]) == 4.0


def test_orth2_does_not_touch_dynamics_and_predictor():
    params = start(small(Agent(StreamQ(lr=0.0), SPR))).params
    moved = []
    for merge in (Sum(), AuxOrthogonalToTd()):
        agent = small(Agent(StreamQ(lr=0.0), SPR, merge=merge))
        moved.append(run(agent, start(agent, params=params), EXPERIENCE[:2], learn_eagerly).params)
    for n in OWN:
        assert np.array_equal(flat(moved[0][n]), flat(moved[1][n]))
    assert not np.array_equal(flat(moved[0]["encoder"]), flat(moved[1]["encoder"]))


# when it is active ----------------------------------------------------------------------------------------------------


def active_steps(agent, transitions):
    layout, state, found = small_layout(agent), start(agent), []
    histories = [flat(state.aux.history)]
    for i, t in enumerate(transitions):
        state, learnt = learn_compiled(agent, layout, state, t, draws_of(agent, i))
        histories.append(flat(state.aux.history))
        found += [i] if learnt.active else []
    return found, histories


def test_spr_learns_at_every_step_with_a_full_window_greedy_or_not():
    """Episodes end after steps 7, 11, 14, 21, 22, 28, counted from 1; each begins with one step too short to see."""
    found, _ = active_steps(small(Agent(Qrc(), ORTH)), EXPERIENCE)
    first_of_an_episode = {0, 7, 11, 14, 21, 22, 28}
    assert found == [i for i in range(30) if i not in first_of_an_episode]


def test_the_history_of_orth_rests_where_there_is_no_auxiliary_gradient():
    found, histories = active_steps(small(Agent(Qrc(), ORTH)), EXPERIENCE[:16])
    for i in range(16):
        assert np.array_equal(histories[i], histories[i + 1]) == (i not in found), i


def test_a_gate_that_opens_every_nth_step_counts_steps_of_the_run():
    found, _ = active_steps(small(Agent(Qrc(), replace(SPR, gate=Every(5)))), EXPERIENCE)
    assert found == [5, 10, 15, 20, 25]


def test_the_greedy_gate_opens_where_the_action_was_greedy():
    t = transition([0.0], 0, 0.0, [0.0])
    assert Greedy().is_open(t, jnp.int32(0))
    assert not Greedy().is_open(t._replace(greedy=jnp.bool_(False)), jnp.int32(0))
    assert [bool(Every(3).is_open(t, jnp.int32(i))) for i in range(5)] == [True, False, False, True, False]


# targets --------------------------------------------------------------------------------------------------------------


def test_the_target_of_spr_follows_encoder_and_projection_after_the_step():
    agent = tweak(small(agent_named("qrc+spr+tau99")), "aux.lr=0.1", "td.lr=0.1")
    assert agent.aux.objective.target == Polyak(0.99)
    state = start(agent)
    assert np.array_equal(flat(state.aux.target), flat({n: state.params[n] for n in SHARED}))
    after = run(agent, state, EXPERIENCE[:1], learn_eagerly)
    for n in SHARED:
        wanted = 0.99 * flat(state.aux.target[n]) + 0.01 * flat(after.params[n])
        np.testing.assert_allclose(flat(after.aux.target[n]), wanted, rtol=1e-5, atol=1e-6)
        assert not np.array_equal(flat(after.params[n]), flat(state.params[n]))


def test_qrcs_second_network_is_not_moved_by_the_auxiliary():
    params = start(small(Agent(Qrc(), SPR))).params
    plain, strong = (
        run(a, start(a, params=params), EXPERIENCE[:2], learn_eagerly).params
        for a in (small(Agent(Qrc(), replace(SPR, weight=w))) for w in (0.0, 100.0))
    )
    for n in params:
        same = np.array_equal(flat(plain[n]), flat(strong[n]))
        assert same == (n.startswith("h_") or n == "head"), n
