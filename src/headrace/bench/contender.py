"""One engine under benchmark: blocks of steps on played-back observations and in the environment, and single steps."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent
from headrace.bench.playback import STEPS, CompiledPlayback, HostPlayback, Place
from headrace.engines.base import Backend, HostStream, Stream
from headrace.training.engine_choice import choose
from headrace.training.run import Run

AT_ONCE = 1000  # a compiled stream takes no more steps in one call


class Block(NamedTuple):
    """The speed of a block of steps, in steps per second of wall-clock and of CPU time."""

    rate: float
    cpu_rate: float


class Contender:
    """One engine with one agent at one place."""

    def __init__(self, engine: str, agent: Agent, place: Place) -> None:
        self.engine, self.agent, self.place = engine, agent, place
        self.streams: dict[str, Stream] = {"update": self._playback()}
        if place.env is not None:
            chosen = choose(agent, place.env, engine)
            run = Run(agent, place.env, seed=0, steps=STEPS, engine=engine, form=chosen.form)
            self.streams["whole"] = run.stream()
        self.blocks = dict.fromkeys(self.streams, 1)
        for stream in self.streams.values():
            stream.begin()

    def _playback(self) -> Stream:
        """A stream on played-back observations: compiled in for the reference engine, else from Python."""
        if self.engine == "reference":
            from headrace.engines.jax.compiled import CompiledStream

            return CompiledStream(self.agent, CompiledPlayback(self.place.spec), seed=0, steps=STEPS)
        return HostStream(self._stepped(), HostPlayback(self.place.spec), seed=0)

    def _stepped(self) -> Backend:
        """The engine stepped from Python."""
        if self.engine == "reference":
            from headrace.engines.jax.engine import ReferenceEngine

            return ReferenceEngine(self.agent, self.place.spec, seed=0, steps=STEPS)
        from headrace.engines.learner.engine import LearnerEngine

        return LearnerEngine(self.agent, self.place.spec, seed=0, steps=STEPS)

    def warm_up(self, block_seconds: float) -> float:
        """Compiles, and finds how many steps make a block; returns the seconds that the first steps took."""
        began = time.perf_counter()
        for stream in self.streams.values():
            stream.run(3)
        first = time.perf_counter() - began
        for kind in self.streams:
            self.blocks[kind] = max(1, int(block_seconds * self._rate(kind, block_seconds / 5)))
        return first

    def _rate(self, kind: str, seconds: float) -> float:
        """Steps per second, from blocks that double until they last so long."""
        while True:
            rate = self.block(kind).rate
            if self.blocks[kind] / rate >= seconds:
                return rate
            self.blocks[kind] *= 2

    def block(self, kind: str) -> Block:
        stream, steps = self.streams[kind], self.blocks[kind]
        began, given = time.perf_counter(), time.process_time()
        for start in range(0, steps, AT_ONCE):
            stream.run(min(steps - start, AT_ONCE))
        taken, used = time.perf_counter() - began, time.process_time() - given
        return Block(steps / taken, steps / max(used, 1e-6))

    def latencies(self, steps: int) -> np.ndarray:
        """Seconds from each answer of the environment to the next action, learning included, stepped from Python."""
        engine, env = self._stepped(), self.place.host()
        engine.begin(env.reset(0))
        taken = [_latency(engine, env) for _ in range(steps + steps // 5)]
        return np.array(taken[-steps:])  # the first ones compile, or warm the caches

    def report(self) -> dict[str, float]:
        """The engine's metrics, means over the steps in the environment."""
        return self.streams.get("whole", self.streams["update"]).report()


def _latency(engine: Backend, env: Any) -> float:
    timestep = env.step(engine.action)
    began = time.perf_counter()
    engine.learn(timestep)
    _ = engine.action
    return time.perf_counter() - began
