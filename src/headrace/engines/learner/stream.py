"""A stream of the C learner: its environment is stepped from Python, or a game of MinAtar's in C beside it."""

from __future__ import annotations

import ctypes

from headrace.agents import Agent
from headrace.engines.base import EpisodeResult, HostStream
from headrace.engines.learner.description import Finished
from headrace.engines.learner.engine import LearnerEngine
from headrace.envs.base import HostEnv
from headrace.envs.minatar.host import HostMinAtar
from headrace.learner import library


def learner_stream(agent: Agent, env: HostEnv, *, seed: int, steps: int) -> HostStream:
    engine = LearnerEngine(agent, env.spec, seed=seed, steps=steps)
    return GameStream(engine, env, seed) if isinstance(env, HostMinAtar) else HostStream(engine, env, seed)


class GameStream(HostStream):
    """Steps are taken in C, without Python in between: the same numbers, sooner."""

    engine: LearnerEngine
    env: HostMinAtar

    def __init__(self, engine: LearnerEngine, env: HostMinAtar, seed: int) -> None:
        if engine.spec != env.spec:  # C would read past the board's end
            raise ValueError(f"the learner is made for {engine.spec.name}, the game is {env.spec.name}")
        super().__init__(engine, env, seed)

    def run(self, n: int) -> list[EpisodeResult]:
        ended = (Finished * n)()
        count = library().hr_run(*self.engine.together(), ctypes.c_void_p(self.env.pointer), n, ended)
        return [EpisodeResult(episode.step, episode.episode_return, episode.length) for episode in ended[:count]]
