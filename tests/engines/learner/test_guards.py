"""The guard is the reference engine's wherever it acts: on every stream's gradient, alone and together."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.agents import BySuite, agent_named, tweak
from headrace.part import has
from tests.engines.learner.parity import compare_steps
from tests.engines.learner.support import SMALL, SUITES, VECTOR, engines, experience, on, spec_of

SHORT = "Clip(0.5)"  # shorter than nearly every gradient
USUAL = ("dqn+spr", "qrc+spr+separate")  # every kind of gradient that is guarded
GUARDED = [*USUAL, *(pytest.param(n, marks=pytest.mark.long) for n in ("dqn+replay5", "strq+spr+orth2", "qrc"))]
DEEP = "network=Conv((8, 8, 8), ((4, 4), (3, 3), (3, 3)), ((2, 2), (1, 1), (1, 1)), 32)"  # as deep as Atari's


def shortened(name):
    """The agent with a guard that acts at nearly every step, on every gradient."""
    agent = agent_named(name)
    return tweak(agent, *(f"{path}={SHORT}" for path in ("td.guard", "aux.guard") if has(agent, path)))


@pytest.mark.parametrize("name", GUARDED)
def test_what_the_guard_shortens_is_learnt_from(name):
    compare_steps(on(shortened(name), BySuite()), spec_of(SUITES["vector"]), 30)


@pytest.mark.long
@pytest.mark.parametrize("suite", ["minatar", "octax"])
@pytest.mark.parametrize("name", ["dqn", "qrc+target", "qrc+spr+orth"])
def test_the_same_on_images(name, suite):
    compare_steps(on(shortened(name), BySuite()), spec_of(SUITES[suite]), 12)


def tallies(agent, shape, steps):
    """What each engine has counted after the same experience: the reference engine, the learner."""
    pair = engines(agent, spec_of(shape))
    first, answers = experience(shape, steps)
    for engine in pair:
        engine.begin(first)
        for answer in answers:
            engine.learn(answer)
    return [{name: a for name, a in engine.save().items() if name.startswith("stream/tally/")} for engine in pair]


def test_how_often_it_acted_is_told():
    reference, fast = tallies(on(shortened("qrc+spr"), VECTOR), SMALL[VECTOR], 20)
    for name in ("sums/guarded", "aux_sums/aux_guarded"):
        counted = [tally[f"stream/tally/{name}"] for tally in (reference, fast)]
        assert counted[0] == counted[1] > 0


def moved(engine, answers):
    """How far each answer moves the parameters, as a share of their norm."""
    shares = []
    for answer in answers:
        before, _ = engine.save(), engine.learn(answer)
        names = [name for name in before if name.startswith("stream/agent/params/")]
        after = engine.save()
        distance = sum(np.square(after[name] - before[name], dtype=np.float64).sum() for name in names)
        shares.append(np.sqrt(distance / sum(np.square(before[name], dtype=np.float64).sum() for name in names)))
    return shares


@pytest.mark.parametrize("guard", ["Clip", "Unguarded"])
def test_the_first_step_on_a_screen(guard):
    """Its observation is exactly zero, and four LayerNorms without variance follow one another."""
    agent, shape = tweak(agent_named("qrc"), f"td.guard={guard}", DEEP), (16, 16, 1)
    first, answers = experience(shape, 3)
    for engine in engines(agent, spec_of(shape)):
        engine.begin(first)
        shares = moved(engine, answers)
        assert max(shares) < 0.02 if guard == "Clip" else shares[0] > 1
