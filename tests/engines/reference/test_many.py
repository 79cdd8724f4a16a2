"""Agents whose large matrices are formulas, the kernels run by an interpreter, against the same agents without."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import ABLATIONS, VARIANTS, Agent, Copy, Dqn, Qrc, Replay, agent_named, tweak
from headrace.engines.reference.agent import (
    Draws,
    Learnt,
    act,
    draw_step,
    found_before,
    found_together,
    init_agent,
    learn,
    learn_and_look,
    look,
)
from headrace.engines.reference.fused import ForMany, many
from headrace.engines.reference.later import Pending
from headrace.engines.reference.networks import Latent, Layout, Seen, activate, deferred, layout_of
from headrace.engines.reference.networks import dense as dense_of
from headrace.engines.reference.td import traces_of
from headrace.engines.reference.transition import Transition
from tests.engines.reference.formulas import NETWORK, STREAMS, assert_near, experience
from tests.engines.reference.support import N_ACTIONS, compiled, small

pytestmark = pytest.mark.usefixtures("interpreted")
NO_DRAWS = Draws(explore=jnp.float32(1), action=jnp.float32(0), replay=jnp.float32(0), aux=jnp.zeros(0))
DQN, QRC = agent_named("dqn"), agent_named("qrc")
OTHERWISE = {
    "dqn+replay": replace(DQN, td=replace(DQN.td, memory=Replay(4))),
    "qrc+spr+one": agent_named("qrc+spr+orth"),
    "qrc+copy": replace(QRC, td=replace(QRC.td, target=Copy(2))),  # s' goes through other weights than s
    "dqn+spr+replay": replace(agent_named("dqn+spr"), td=replace(DQN.td, memory=Replay(4))),
    "qrc+spr+copy": replace(agent_named("qrc+spr"), td=replace(QRC.td, target=Copy(2))),
}


def after_some_steps(name: str, network: Any) -> Any:
    agent = small(agent_named(name), NETWORK)
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=network)
    keys = jax.random.split(jax.random.key(1), STREAMS)
    state = jax.vmap(lambda key: init_agent(agent, layout, key))(keys)
    step = compiled(
        jax.vmap(lambda s, t, key: learn(agent, layout, s, t, draw_step(agent, key)))  # one program for both streams
    )
    told = []
    for i, transition in enumerate(experience(layout)):
        state, learnt = step(state, transition, jax.random.split(jax.random.key(200 + i), STREAMS))
        told.append(learnt)
    return state, told


TOLD = ("dqn+replay", "strq+spr+orth2", "qrc+copy", "qrc+spr+orth")
TOLD_TOO = (
    "qrc+spr+one",
    "dqn+spr+replay",
    "qrc+spr+copy",
    "qrc+spr+tau99",
    "qrc+spr+separate",
    "qrc+curl",
    "qrc+orth_td",
    "released",
)


@pytest.mark.parametrize("name", [*TOLD, *(pytest.param(name, marks=pytest.mark.long) for name in TOLD_TOO)])
def test_what_a_pass_sees_ahead_is_what_the_next_step_would_compute(name: str) -> None:
    """A step of which all is given that is known before the environment answers, against one that has to compute it."""
    agent = small(OTHERWISE[name] if name in OTHERWISE else agent_named(name), NETWORK)
    if name == "qrc+spr+one":
        agent = tweak(agent, "aux.objective.horizon=1")  # no truth is known beforehand
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=ForMany(NETWORK))
    state = jax.vmap(lambda key: init_agent(agent, layout, key))(jax.random.split(jax.random.key(1), STREAMS))
    step = compiled(
        jax.vmap(lambda *given: learn_and_look(agent, layout, *given[:2], draw_step(agent, given[2]), given[3]))
    )
    choose = compiled(jax.vmap(lambda p, obs, known: act(layout, p, obs, jnp.float32(0), NO_DRAWS, known)))
    prepare = compiled(
        jax.vmap(lambda s, t, key, known: found_before(
            layout.network, agent, layout, s, t, draw_step(agent, key), known
        ))
    )  # fmt: skip
    transitions = experience(layout)
    untold, seen = state, jax.vmap(look, (None, 0, 0))(layout, state.params, transitions[0].obs)
    assert set(seen) == ({"projection", "h_projection"} if isinstance(agent.td, Qrc) else {"projection"})
    for i, (now_, later) in enumerate(zip(transitions, [*transitions[1:], transitions[0]], strict=True)):
        assert_near(choose(state.params, now_.obs, seen), choose(untold.params, now_.obs, ()))
        keys = jax.random.split(jax.random.key(200 + i), STREAMS)
        before = prepare(state, now_, keys, seen)
        state, told, seen = step(state, now_._replace(before=before), keys, later.obs)
        untold, plainly_told, _ = step(untold, now_, keys, later.obs)
        assert_near((state, told), (untold, plainly_told))
        assert_near(seen, jax.vmap(look, (None, 0, 0))(layout, state.params, later.obs))


FOUND = {
    "dqn": "q", "dqn+replay": "", "dqn+polyak": "q", "dqn+spr+replay": "aux", "strq+spr+orth2": "q v aux",
    "qrc": "q v h", "qrc+copy": "q h", "qrc+curl": "q v h", "qrc+spr+orth": "q v h aux", "qrc+spr+copy": "q h aux",
    "qrc+spr+tau99": "q v h", "qrc+spr+separate": "q v h", "released": "q v h",
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_only_what_goes_through_the_present_projection_at_this_step_goes_together(name: str) -> None:
    agent = small(OTHERWISE[name] if name in OTHERWISE else agent_named(name), NETWORK)
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=ForMany(NETWORK))
    first, draws = jax.tree.map(lambda x: x[0], experience(layout)[0]), draw_step(agent, jax.random.key(2))

    def found() -> Any:
        state = init_agent(agent, layout, jax.random.key(1))
        seen = look(layout, state.params, first.obs)
        before = found_before(layout.network, agent, layout, state, first, draws, seen)
        late = deferred(layout.network, state)
        names = found_together(layout.network, agent, layout, late, first._replace(before=before))
        return dict.fromkeys(names, 0)

    assert set(jax.eval_shape(found)) == set(FOUND[name].split())


def test_what_is_known_of_an_observation_is_used() -> None:
    """Were it computed all the same, the test above would hold as well, and nothing would be saved."""
    agent = small(agent_named("qrc"), NETWORK)
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=ForMany(NETWORK))
    state = init_agent(agent, layout, jax.random.key(1))
    first = jax.tree.map(lambda x: x[0], experience(layout)[0])
    draws = draw_step(agent, jax.random.key(2))
    known = {name: jnp.arange(16.0) for name in ("projection", "h_projection")}
    seen = {name: Seen(row, Latent(jnp.ones(32))) for name, row in known.items()}
    before = found_before(layout.network, agent, layout, state, first, draws, seen)
    _, learnt = learn(agent, layout, state, first._replace(before=before), draws)
    _, plainly_learnt = learn(agent, layout, state, first, draws)
    assert learnt.always["q"] != plainly_learnt.always["q"]
    assert learnt.always["h"] != plainly_learnt.always["h"]
    wanted = dense_of(state.params["head"][0], activate(known["projection"] + state.params["projection"][0]["b"]))
    np.testing.assert_allclose(learnt.always["q"], wanted[first.action], rtol=1e-6)


USUAL = ("dqn", "strq+spr+orth2", "qrc+spr+orth")
TRACING = [
    name for name in (*VARIANTS, *ABLATIONS) if name != "qrc+spr+orth" and not isinstance(agent_named(name).td, Dqn)
]
OTHERS = [name for name in (*VARIANTS, *ABLATIONS) if name not in USUAL]


@pytest.mark.parametrize("name", [*USUAL, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_an_agent_learns_the_same_with_its_matrices_as_formulas(name: str) -> None:
    """Everything that it knows and tells, to float32 rounding, in two streams at once."""
    (got, told), (wanted, plainly_told) = (after_some_steps(name, network) for network in (ForMany(NETWORK), NETWORK))
    assert_near(got, wanted)
    for mine, theirs in zip(told, plainly_told, strict=True):
        assert_near(without_noise(name, mine), without_noise(name, theirs))


def pending(tree: Any) -> bool:
    return any(isinstance(x, Pending) for x in jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, Pending)))


def in_the_middle(agent: Agent, layout: Layout, key: jax.Array) -> Any:
    """An agent with a past: traces, histories and averages that are not zero, and a full window."""
    state = init_agent(agent, layout, key)

    def random(tree: Any) -> Any:
        return jax.tree.map(lambda x: jax.random.normal(jax.random.fold_in(key, x.size), x.shape) / 10, tree)

    td = state.td._replace(**{name: random(trace) for name, trace in traces_of(state.td).items()})
    aux = state.aux
    if aux:
        window = aux.window._replace(observations=random(aux.window.observations), held=jnp.int32(100))
        aux = aux._replace(history=random(aux.history), window=window)
    return state._replace(td=td, td_history=random(state.td_history), aux=aux, merge=random(state.merge))


@pytest.mark.parametrize("name", ["qrc+spr+orth", *(pytest.param(name, marks=pytest.mark.long) for name in TRACING)])
def test_traces_and_histories_may_stay_formulas_from_one_step_to_the_next(name: str) -> None:
    """Two steps as a fleet takes them, an exploring one and an end, with formulas between them or without."""
    agent = small(agent_named(name), NETWORK)
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=ForMany(NETWORK))
    start = jax.vmap(partial(in_the_middle, agent, layout))(jax.random.split(jax.random.key(1), STREAMS))
    transitions = experience(layout)[2:4]

    def learnt(settle: bool, state: Any, t: Transition, key: jax.Array, seen: Any, ahead: jax.Array) -> Any:
        draws = draw_step(agent, key)
        before = found_before(layout.network, agent, layout, state, t, draws, seen)
        return learn_and_look(agent, layout, state, t._replace(before=before), draws, ahead, settle)

    @partial(compiled, static_argnums=0)
    def both(settle: bool, state: Any) -> Any:
        seen, told = jax.vmap(look, (None, 0, 0))(layout, state.params, transitions[0].obs), []
        for i, t in enumerate(transitions):
            keys = jax.random.split(jax.random.key(200 + i), STREAMS)
            at_once = settle or i == 1
            state, new, seen = jax.vmap(partial(learnt, at_once))(state, t, keys, seen, transitions[1].obs)
            assert [pending(traces_of(state.td)), pending(state.params)] == [not at_once, False]
            told.append(without_noise(name, new))
        return state, told

    got, wanted = both(False, start), both(True, start)
    assert_near(got, wanted)


def without_noise(name: str, learnt: Learnt) -> Learnt:
    """Orth against a history that the gradient is part of leaves next to nothing, and that has no direction."""
    if name != "qrc+spr+raw_current":
        return learnt
    return learnt._replace(aux={key: x for key, x in learnt.aux.items() if key != "cosine_before_orth2"})


@pytest.mark.long
@pytest.mark.usefixtures("fresh_programs")
def test_curl_learns_the_same_with_its_own_projection_as_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradient is an array, the target that follows it a formula."""
    monkeypatch.setattr(many, "LARGE", 128)
    (got, told), (wanted, plainly_told) = (after_some_steps("qrc+curl", net) for net in (ForMany(NETWORK), NETWORK))
    assert_near((got, told), (wanted, plainly_told))
