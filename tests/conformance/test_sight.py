"""Every variant sees: on both engines it beats whoever plays blind, though its first observation is exactly zero.

The network for screens is small, but as deep as Atari's: four LayerNorms in a row; the one for vectors is that of the
parity tests, which share their programs. What counts is the mean reward of the last third of a run. With 16 seeds of
the learner it was 0.94 at least (exploration costs the rest) for each of the nine variants, on screens and on
vectors, with signs hidden for a while or not; without a guard it was between -0.38 and 0.2 on screens.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from headrace.agents import VARIANTS, Agent, agent_named, tweak
from headrace.definition.networks import init_params, layout_of, q_values
from headrace.engines.jax.arrays import from_named_arrays
from headrace.engines.jax.stream import begin, trouble_in
from headrace.engines.learner.engine import LearnerEngine
from headrace.envs.base import EnvSpec
from headrace.normalize import Moments, standardised
from headrace.training.health import Watch
from headrace.training.pace import LOG_EVERY
from tests.conformance.signs import BEST, BLIND, Signs, screens, vectors
from tests.engines.learner.support import Reference

STEPS, HIDDEN = 300, 60
CLEARLY = (BLIND + BEST) / 2
PICTURES = {"screens": screens(), "vectors": vectors()}
NETWORK = {
    "screens": "network=Conv((8, 8, 8), ((4, 4), (3, 3), (3, 3)), ((2, 2), (1, 1), (1, 1)), 32)",
    "vectors": "network=BySuite",
}
RATE = {"screens": "td.lr=1e-3", "vectors": "td.lr=3e-3"}  # 1e-4 takes longer than the test; ObGD finds its own


def agent_for(name: str, shown: str) -> Agent:
    rate = () if name.startswith("strq") else (RATE[shown],)
    return tweak(agent_named(name), NETWORK[shown], "td.gamma=0.5", *rate)


class Definition(Reference):
    """The reference engine, put where the learner begins: that saves a program for each agent."""

    def __init__(self, agent: Agent, spec: EnvSpec) -> None:
        super().__init__(agent, spec, steps=STEPS)
        self.beginning = Fast(agent, spec)

    def begin(self, obs: np.ndarray) -> None:
        self.beginning.begin(obs)
        template = jax.eval_shape(partial(begin, self.setting, self.layout), obs)
        self.state = from_named_arrays("stream", template, self.beginning.save())

    @property
    def action(self) -> int:
        return int(self.state.choice.action)

    def trouble(self) -> tuple[str, int] | None:
        return trouble_in(self.state.tally)


class Fast(LearnerEngine):
    def __init__(self, agent: Agent, spec: EnvSpec) -> None:
        super().__init__(agent, spec, seed=0, steps=STEPS)


class Played(NamedTuple):
    reward: float  # mean of the last third
    sight: float  # how far apart Q of the two signs is, relative to its spread over actions
    trouble: Any


def played(kind: Any, name: str, shown: str, hidden: int = 0) -> Played:
    agent, env, rewards = agent_for(name, shown), Signs(PICTURES[shown], hidden), []
    engine = kind(agent, env.spec)
    engine.begin(env.reset(0))
    for _ in range(STEPS):
        timestep = env.step(engine.action)
        rewards.append(timestep.reward)
        engine.learn(timestep)
    return Played(float(np.mean(rewards[-STEPS // 3 :])), sight(agent, env, engine.save()), engine.trouble())


def sight(agent: Agent, env: Signs, arrays: dict[str, np.ndarray]) -> float:
    layout = layout_of(agent, env.spec.observation_shape, env.spec.n_actions)
    template = jax.eval_shape(partial(init_params, agent, layout), jax.random.key(0))
    modules = from_named_arrays("stream/agent/params", template, arrays)
    scale = Moments(*(arrays[f"stream/obs_scale/{part}"] for part in Moments._fields))
    signs = [standardised(scale, picture, np) for picture in env.pictures]
    q = np.array([q_values(layout, modules, sign) for sign in signs], np.float64)
    return float(np.sqrt(q.var(axis=0).mean() / q.var(axis=1).mean()))


ENGINES = {"reference": Definition, "learner": Fast}


# Nothing to be seen at first is the harder game; the reference engine, which takes longer, plays it on screens alone:
# in the usual run with the fullest variant of each rule.
FULLEST = ("dqn+spr", "strq+spr+orth2", "qrc+spr+orth")
CASES = [("learner", shown, hidden, name) for shown in PICTURES for hidden in (0, HIDDEN) for name in VARIANTS]
CASES += [("reference", "screens", HIDDEN, name) for name in FULLEST]
LONG = [("reference", "screens", HIDDEN, name) for name in VARIANTS if name not in FULLEST]
LONG += [("reference", "vectors", 0, name) for name in VARIANTS]
CASES += [pytest.param(*case, marks=pytest.mark.long) for case in LONG]


@pytest.mark.parametrize(("engine", "shown", "hidden", "name"), CASES)
def test_a_variant_beats_whoever_plays_blind(engine, shown, hidden, name):
    """Also when at first there is nothing to be seen for a while and rewards are chance."""
    found = played(ENGINES[engine], name, shown, hidden)
    assert found.trouble is None
    assert found.reward > CLEARLY
    assert found.sight > 0.1


@pytest.mark.parametrize(
    ("engine", "name"), [("learner", "dqn+unguarded"), ("learner", "qrc+unguarded"), ("reference", "qrc+unguarded")]
)
def test_without_a_guard_it_goes_blind_on_screens(engine, name):
    """All is finite, and nothing else betrays it. Sight of six seeds: at most 2e-7; with the guard, at least 0.78."""
    found = played(ENGINES[engine], name, "screens")
    assert found.trouble is None
    assert found.reward < CLEARLY
    assert found.sight < 1e-3


@pytest.mark.parametrize(("name", "kinds"), [("qrc", []), ("qrc+unguarded", ["blind"])])
def test_the_watch_catches_a_blind_agent_and_no_other(name, kinds):
    agent, env, found = agent_for(name, "screens"), Signs(screens()), []
    engine, watch = LearnerEngine(agent, env.spec, seed=0, steps=3 * LOG_EVERY), Watch(agent)
    engine.begin(env.reset(0))
    for step in range(1, 3 * LOG_EVERY + 1):
        engine.learn(env.step(engine.action))
        if step % LOG_EVERY == 0:
            found += watch.see({"step": step, **engine.report()})
    assert [finding.kind for finding in found] == kinds
