"""The pieces of the released family are the reference engine's, step by step; and what each does, seen from outside."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import agent_named, tweak
from headrace.engines.jax.frozen import FrozenPolicy
from headrace.engines.learner.engine import LearnerEngine
from headrace.policy import Policy
from tests.engines.learner.parity import compare_steps
from tests.engines.learner.support import SUITES, experience, spec_of

# Bounds and limits that act at most steps; each piece with every rule, and with modules of every kind.
USUAL = ("released", "merge.norm=1e-3", "aux.objective.window=Episode", "observations=Limited(1)")
THOROUGH = [
    ("strq+spr+orth2", "network.head=Relu", "merge=Bounded(AuxOrthogonalToTd, 1e-3)", "aux.filter.modules=Together"),
    ("released-down", "merge.norm=1e-3", "td_filter=Orth(modules=Together)", "aux.gate=Every(2)"),
    ("released-dqn+spr", "merge.norm=1e-4", "aux.objective.projection=Separate",
     "aux.filter=Orth(history=RawCurrent, modules=Together, rest=Fading)"),
    ("dqn+replay5", "merge=Bounded(Sum, 1e-4)", "td_filter=Orth(history=Projected, modules=Together)"),
    ("qrc", "network.head=Relu", "merge=Bounded(Sum, 1e-3)", "observations=Limited(0.5)"),
]  # fmt: skip


@pytest.mark.parametrize("pieces", [USUAL, *(pytest.param(p, marks=pytest.mark.long) for p in THOROUGH)])
def test_a_step_gives_the_state_of_the_reference_engine(pieces):
    compare_steps(tweak(agent_named(pieces[0]), *pieces[1:]), spec_of(SUITES["vector"]), 40)


@pytest.mark.long
@pytest.mark.parametrize("suite", ["minatar", "octax", "atari"])
@pytest.mark.parametrize("pieces", [USUAL, THOROUGH[-1]])
def test_the_same_on_images(pieces, suite):
    compare_steps(tweak(agent_named(pieces[0]), *pieces[1:], "merge.norm=1e-2"), spec_of(SUITES[suite]), 12)


SHAPE = SUITES["vector"]


def engine_of(name, *settings):
    engine = LearnerEngine(tweak(agent_named(name), *settings), spec_of(SHAPE), seed=0, steps=1000)
    first, answers = experience(SHAPE, 40)
    engine.begin(first)
    return engine, answers


def params_of(engine):
    saved = engine.save()
    names = [name for name in saved if name.startswith("stream/agent/params/")]
    return np.concatenate([saved[name].ravel() for name in names]).astype(np.float64)


@pytest.mark.parametrize("name", ["dqn", "strq+spr", "qrc+spr+orth"])
def test_no_step_is_longer_than_its_bound_and_some_are_as_long(name):
    lengths = {}
    for merge in ("Sum", "Bounded(Sum, 2e-4)"):
        engine, answers = engine_of(name, f"merge={merge}")
        lengths[merge] = []
        for answer in answers:
            before, _ = params_of(engine), engine.learn(answer)
            lengths[merge].append(np.linalg.norm(params_of(engine) - before))
    free, bounded = lengths.values()
    assert max(bounded) == pytest.approx(2e-4, rel=1e-3)
    assert max(free) > 1e-3


def test_a_bound_that_never_acts_changes_no_bit():
    free, bounded = (engine_of("qrc+spr", f"merge={merge}") for merge in ("Sum", "Bounded(Sum, 1e6)"))
    for engine, answers in (free, bounded):
        for answer in answers:
            engine.learn(answer)
    wanted, found = free[0].save(), bounded[0].save()
    assert all(np.array_equal(found[name], array) for name, array in wanted.items())


def test_a_trained_agent_is_given_limited_observations_by_everyone_who_plays_or_looks():
    engine, answers = engine_of("strq", "observations=Limited(0.5)", "network.head=Relu")
    for answer in answers:
        engine.learn(answer)
    agent, spec, saved, seen = engine.agent, engine.spec, engine.save(), answers[-1].obs
    assert np.abs(saved["stream/obs"]).max() == 0.5
    policies = [Policy(agent, saved), FrozenPolicy(agent, spec, saved, eps=0.0, seed=0)]
    latents = [policy.latent(seen) for policy in policies]
    np.testing.assert_allclose(latents[1], latents[0], rtol=1e-4, atol=1e-6)
    unlimited = Policy(tweak(agent, "observations=Unlimited"), saved)
    assert np.abs(unlimited.latent(seen) - latents[0]).max() > 1e-2
    chosen = [[policy(answer.obs) for answer in answers] for policy in policies]
    assert chosen[0] == chosen[1]
