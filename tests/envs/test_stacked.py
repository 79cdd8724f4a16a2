"""Stacks of raw frames for an agent whose statistics are frozen."""

from __future__ import annotations

import numpy as np

from headrace.agents import agent_named, tweak
from headrace.engines.jax.engine import ReferenceEngine
from headrace.engines.jax.frozen import FrozenPolicy
from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.hosted import Stacked, whole_observations

SPEC = EnvSpec("counter", (3,), ("a", "b"), frames=3)


class Counter:
    """Shows 10, 11, 12, 13 and then begins again with the number of the episode; a life is lost at 12."""

    def __init__(self, spec: EnvSpec = SPEC) -> None:
        self.spec = spec

    def reset(self, seed: int) -> np.ndarray:
        self.at, self.episode = 10.0, 0
        return np.array([self.at])

    def step(self, action: int) -> TimeStep:
        self.at += 1
        last, reached = self.at == 13, np.array([self.at])
        if last:
            self.episode += 1
            self.at = 10.0
        obs = np.array([float(self.episode)]) if last else reached
        return TimeStep(obs, reached, 0.0, bool(reached[0] >= 12), False, last)


def test_the_newest_frame_is_last_and_an_episode_begins_with_its_first_repeated() -> None:
    env = Stacked(Counter())
    assert env.reset(0).tolist() == [10, 10, 10]
    seen = [env.step(0) for _ in range(5)]
    assert [s.successor.tolist() for s in seen] == [
        [10, 10, 11],
        [10, 11, 12],
        [11, 12, 13],
        [1, 1, 11],
        [1, 11, 12],
    ]
    assert [s.obs.tolist() for s in seen[1:4]] == [[10, 11, 12], [1, 1, 1], [1, 1, 11]]


def test_an_environment_of_single_frames_stays_as_it_is() -> None:
    env = Counter(EnvSpec("counter", (1,), ("a",)))
    assert whole_observations(env) is env
    assert isinstance(whole_observations(Counter()), Stacked)


def test_a_frozen_policy_standardises_every_frame_alike() -> None:
    agent = tweak(agent_named("strq"), "network=Mlp((4,), 4)")
    engine, env = ReferenceEngine(agent, SPEC, seed=0, steps=10), Counter()
    engine.begin(env.reset(0))
    for _ in range(4):
        engine.learn(env.step(0))
    policy = FrozenPolicy(agent, SPEC, engine.save(), eps=0.0, seed=0)
    frames = np.array([10, 11, 12, 13, 1, 11], np.float64)  # all that the statistics have seen
    stack = np.array([11.0, 12.0, 13.0])
    first_layer = engine.save()["stream/agent/params/encoder/0/w"]
    bias = engine.save()["stream/agent/params/encoder/0/b"]
    x = ((stack - frames.mean()) / frames.std(ddof=1)) @ first_layer + bias
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    np.testing.assert_allclose(policy.latent(stack), np.where(x >= 0, x, 0.01 * x), rtol=1e-4, atol=1e-5)
    assert policy(stack) in (0, 1)
