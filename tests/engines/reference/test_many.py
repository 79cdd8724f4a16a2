"""Agents whose large matrices are formulas, the kernels run by an interpreter, against the same agents without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import ABLATIONS, VARIANTS, Copy, Mlp, Qrc, Replay, agent_named, tweak
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
from headrace.engines.reference.fused import ForMany, dense, many, passes, programs
from headrace.engines.reference.fused.passes import passed
from headrace.engines.reference.later import (
    Made,
    OuterSum,
    Pending,
    Wanted,
    Whole,
    chosen,
    inner_products,
    now,
    promised,
    settled,
)
from headrace.engines.reference.networks import Latent, Layout, Seen, activate, deferred, layout_of
from headrace.engines.reference.networks import dense as dense_of
from headrace.engines.reference.td import traces_of
from headrace.engines.reference.transition import Transition
from headrace.engines.reference.trees import dot, dots, norm1, without
from tests.engines.reference.support import N_ACTIONS, compiled, small

NETWORK = Mlp((32,), 16)  # a projection of 512 weights, which counts as large here
STREAMS, STEPS = 2, 5
NO_DRAWS = Draws(explore=jnp.float32(1), action=jnp.float32(0), replay=jnp.float32(0), aux=jnp.zeros(0))
DQN, QRC = agent_named("dqn"), agent_named("qrc")
OTHERWISE = {
    "dqn+replay": replace(DQN, td=replace(DQN.td, memory=Replay(4))),
    "qrc+spr+one": agent_named("qrc+spr+orth"),
    "qrc+copy": replace(QRC, td=replace(QRC.td, target=Copy(2))),  # s' goes through other weights than s
    "dqn+spr+replay": replace(agent_named("dqn+spr"), td=replace(DQN.td, memory=Replay(4))),
    "qrc+spr+copy": replace(agent_named("qrc+spr"), td=replace(QRC.td, target=Copy(2))),
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(programs, "INTERPRET", True)
    monkeypatch.setattr(many, "LARGE", 512)
    for module in (passes, many):
        monkeypatch.setattr(module, "ROWS", 8)  # several programs for each matrix, also where they are few
    for module in (passes, dense):
        monkeypatch.setattr(module, "ROWS_BESIDE", 16)
    for name in ("ONE", "FEW", "MORE", "BACK_ONE", "BACK_FEW"):
        monkeypatch.setattr(dense, name, dense.Piece(16, 16))
    yield
    jax.clear_caches()


def matrix(seed: int, rows: int = 64, columns: int = 16) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (rows, columns))


def formulas() -> tuple[dict[str, Any], dict[str, jax.Array]]:
    """Some of each kind, and the arrays that they stand for."""
    w, z, x, d = matrix(0), matrix(1), matrix(2, 3, 64), matrix(3, 3, 16)
    whole, outer, keep = Whole(w, passed), OuterSum(x, d, passed), jnp.float32(0.7)
    g = jnp.einsum("ki,ko->io", x, d)
    cut = jnp.bool_(True)
    late = {
        "whole": whole, "outer": outer, "sum": whole + keep * outer, "difference": outer - 0.5 * z,
        "turned": z - outer, "cut": chosen(cut, 0.0, whole), "kept": chosen(~cut, 0.0, 2 * (whole + z)),
    }  # fmt: skip
    arrays = {
        "whole": w, "outer": g, "sum": w + keep * g, "difference": g - 0.5 * z, "turned": z - g,
        "cut": jnp.zeros_like(w), "kept": 2 * (w + z),
    }  # fmt: skip
    return late, arrays


def assert_near(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * max(1.0, float(jnp.abs(theirs).max())))


def test_one_pass_makes_every_formula_and_the_norms_of_those_that_are_watched() -> None:
    late, arrays = formulas()
    watched = late["sum"] - late["difference"]
    assert_near(settled(late, watching=[watched])[0], arrays)
    assert_near({name: now(formula) for name, formula in late.items()}, arrays)
    assert_near(watched.square, jnp.sum((arrays["sum"] - arrays["difference"]) ** 2))
    assert inner_products([(watched, watched)])[0] is watched.square


def test_matrices_that_share_nothing_are_gone_through_apart() -> None:
    passes = []

    def counted(wanted: Wanted) -> Made:
        passes.append(len(wanted.outputs))
        return passed(wanted)

    one, two, three = (Whole(matrix(seed), counted) for seed in range(3))
    settled({"these": [one + two, 2 * two], "alone": three * 2.0, "number": jnp.float32(3)})
    assert sorted(passes) == [1, 2]


def test_inner_products_and_norms_are_those_of_the_arrays() -> None:
    late, arrays = formulas()
    names = [(a, b) for a in late for b in late]
    found = dots(*((late[a], late[b]) for a, b in names))
    assert_near(found, [jnp.sum(arrays[a] * arrays[b]) for a, b in names])
    assert_near(dot(late["sum"], arrays["whole"]), jnp.sum(arrays["sum"] * arrays["whole"]))
    assert_near(norm1([late["sum"], jnp.float32(-2)]), jnp.sum(jnp.abs(arrays["sum"])) + 2)
    assert_near(now(without(late["sum"], late["whole"])), without(arrays["sum"], arrays["whole"]))


def test_matrices_of_other_shapes_and_rows_in_common_are_kept_apart() -> None:
    x, d, e = matrix(0, 2, 64), matrix(1, 2, 16), matrix(2, 2, 16)
    one, two, low = OuterSum(x, d, passed), OuterSum(x, e, passed), Whole(matrix(3, 32), passed)
    assert_near(now(settled({"both": one + 2 * two})[0]["both"]), x.T @ d + 2 * (x.T @ e))
    tall = Whole(matrix(4), passed)
    assert_near(dots(([tall, low], [tall, low])), [jnp.sum(tall.array**2) + jnp.sum(low.array**2)])


def experience(layout: Layout) -> list[Transition]:
    """Steps of both streams: an exploring one, an end and a truncation among them."""
    found = []
    for i in range(STEPS):
        key = jax.random.split(jax.random.key(100 + i), 4)
        obs, following = (jax.random.normal(k, (STREAMS, *layout.observation_shape)) for k in key[:2])
        flags = {
            "terminated": jnp.array([i == 3, False]), "truncated": jnp.array([False, i == 4]),
            "last": jnp.array([i == 3, i == 4]), "greedy": jnp.array([True, i != 2]),
        }  # fmt: skip
        action = jax.random.randint(key[2], (STREAMS,), 0, N_ACTIONS)
        found.append(Transition(obs, action, jax.random.normal(key[3], (STREAMS,)), following, **flags))
    return found


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


TOLD = ("dqn+replay", "strq+spr+orth2", "qrc+copy", "qrc+spr+one", "qrc+spr+orth")
TOLD_TOO = (
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
            layout.network, agent, layout, s, t.obs, t.action, draw_step(agent, key), known, ()
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
        before = found_before(layout.network, agent, layout, state, first.obs, first.action, draws, seen, ())
        late = deferred(layout.network, state)
        names = found_together(layout.network, agent, layout, late, first._replace(before=before), draws)
        return dict.fromkeys(names, 0)

    assert set(jax.eval_shape(found)) == set(FOUND[name].split())


def test_the_pass_that_the_next_choice_waits_for_comes_first_and_the_others_leave_room() -> None:
    passes = []

    def noted(wanted: Wanted) -> Made:
        passes.append((len(wanted.outputs), len(wanted.after), wanted.beside))
        return passed(wanted)

    one, two, three = (Whole(matrix(i), noted) for i in range(3))
    tree = {"a": one * 2.0, "b": [two * 3.0, two * 4.0], "c": three * 5.0}
    vectors = {"choice": (jnp.ones(64), tree["b"][1]), "later": (jnp.ones(64), tree["a"])}
    made, rows = settled(tree, vectors=vectors)
    assert passes == [(2, 0, False), (1, 1, True), (1, 1, True)]
    assert_near(rows, {"choice": jnp.ones(64) @ made["b"][1], "later": jnp.ones(64) @ made["a"]})


def test_what_is_known_of_an_observation_is_used() -> None:
    """Were it computed all the same, the test above would hold as well, and nothing would be saved."""
    agent = small(agent_named("qrc"), NETWORK)
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=ForMany(NETWORK))
    state = init_agent(agent, layout, jax.random.key(1))
    first = jax.tree.map(lambda x: x[0], experience(layout)[0])
    draws = draw_step(agent, jax.random.key(2))
    known = {name: jnp.arange(16.0) for name in ("projection", "h_projection")}
    seen = {name: Seen(row, Latent(jnp.ones(32))) for name, row in known.items()}
    before = found_before(layout.network, agent, layout, state, first.obs, first.action, draws, seen, ())
    _, learnt = learn(agent, layout, state, first._replace(before=before), draws)
    _, plainly_learnt = learn(agent, layout, state, first, draws)
    assert learnt.always["q"] != plainly_learnt.always["q"]
    assert learnt.always["h"] != plainly_learnt.always["h"]
    wanted = dense_of(state.params["head"][0], activate(known["projection"] + state.params["projection"][0]["b"]))
    np.testing.assert_allclose(learnt.always["q"], wanted[first.action], rtol=1e-6)


USUAL = ("dqn", "strq+spr+orth2", "qrc+spr+orth")
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


def three_steps(name: str, network: Any, settle: bool) -> Any:
    """All that is known after three steps, of which only the last has to leave arrays; and what the passes wrote."""
    agent = small(agent_named(name), NETWORK)
    layout = replace(layout_of(agent, (3,), N_ACTIONS), network=network)
    state = jax.vmap(lambda key: init_agent(agent, layout, key))(jax.random.split(jax.random.key(1), STREAMS))
    transitions = experience(layout)[1:4]  # an exploring one and an end among them

    def learnt(settle: bool, state: Any, t: Transition, key: jax.Array) -> Any:
        return learn_and_look(agent, layout, state, t, draw_step(agent, key), t.next_obs, settle)[:2]

    @compiled
    def three(state: Any) -> Any:
        told = []
        for i, t in enumerate(transitions):
            keys = jax.random.split(jax.random.key(200 + i), STREAMS)
            settled_now = settle or i == 2
            state, new = jax.vmap(partial(learnt, settled_now))(state, t, keys)
            assert pending(state) == (not settled_now and bool(traces_of(state.td)))
            told.append(new)
        return state, told

    return three(state)


@pytest.mark.parametrize("name", [*USUAL, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_traces_and_histories_may_stay_formulas_from_one_step_to_the_next(name: str) -> None:
    (got, told), (wanted, plainly_told) = (three_steps(name, ForMany(NETWORK), settle) for settle in (False, True))
    assert_near(got, wanted)
    for mine, theirs in zip(told, plainly_told, strict=True):
        assert_near(without_noise(name, mine), without_noise(name, theirs))


def test_what_is_promised_is_made_once_and_after_what_the_next_choice_begins_with() -> None:
    made = []

    def make(*after: jax.Array) -> Any:
        made.append(after)
        return {"w": matrix(5, 3, 4), "b": jnp.arange(4.0)}

    gradient, past = promised(make), {"w": matrix(6, 3, 4), "b": jnp.ones(4)}
    left = without(gradient, past)
    latent, weights = jnp.ones(64), Whole(matrix(0), passed) * 2.0
    tree, rows = settled((left, weights), watching=left, vectors={"choice": (latent, weights)}, leaving=left)
    assert_near(tree[0], without({"w": matrix(5, 3, 4), "b": jnp.arange(4.0)}, past))
    assert_near(dots((gradient, past)), [jnp.sum(matrix(5, 3, 4) * past["w"]) + 6])
    assert_near(rows["choice"], latent @ tree[1])
    assert len(made) == 2  # the first time for the shapes
    assert made[1][0] is latent


def test_inner_products_wait_for_what_a_gradient_says() -> None:
    wanted = []

    def noted(w: Wanted) -> Made:
        wanted.append(w)
        return passed(w)

    first, second = jnp.ones(2), jnp.zeros(3)
    history = Whole(matrix(0), noted)
    gradients = [OuterSum(matrix(1, 2, 64), matrix(2, 2, 16), noted, after=after) for after in ([first], [second], ())]
    for gradient in gradients:
        dots((gradient, history), (history, history))
    assert [[id(x) for x in w.after] for w in wanted] == [[id(first)], [id(second)], []]
    assert [w.beside for w in wanted] == [True, True, False]


def test_a_formula_between_two_steps_has_each_of_its_arrays_once() -> None:
    w, x, d, keep = matrix(0), matrix(2, 3, 64), matrix(3, 3, 16), jnp.float32(0.7)
    whole, outer = Whole(w, passed), OuterSum(x, d, passed)
    kept = Pending.of(chosen(jnp.bool_(True), keep * whole + keep * outer, 0.5 * whole + outer))
    assert len(jax.tree.leaves(kept)) == 5  # the condition, keep, w, x, d
    again = jax.tree.map(lambda a: a + 0, kept).formula
    assert len({id(part) for part in again.parts() if isinstance(part, OuterSum)}) == 1
    assert_near(now(again), keep * (w + jnp.einsum("ki,ko->io", x, d)))


def without_noise(name: str, learnt: Learnt) -> Learnt:
    """Orth against a history that the gradient is part of leaves next to nothing, and that has no direction."""
    if name != "qrc+spr+raw_current":
        return learnt
    return learnt._replace(aux={key: x for key, x in learnt.aux.items() if key != "cosine_before_orth2"})


@pytest.mark.long
def test_curl_learns_the_same_with_its_own_projection_as_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradient is an array, the target that follows it a formula."""
    monkeypatch.setattr(many, "LARGE", 128)
    (got, told), (wanted, plainly_told) = (after_some_steps("qrc+curl", net) for net in (ForMany(NETWORK), NETWORK))
    assert_near((got, told), (wanted, plainly_told))
