"""One stream on one core: how fast each engine learns, and what the core could do at best."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent, agent_named
from headrace.bench.cost import Cost, Peaks, cost_of, measure_peaks
from headrace.bench.playback import STEPS, CompiledPlayback, HostPlayback, Place, place_of
from headrace.engines.base import Backend, HostStream, Stream
from headrace.training.run import Run, backend, choose

AT_ONCE = 1000  # a compiled stream takes no more steps in one call
BLOCKS = 5  # of each kind and engine, one after the other in turn
KINDS = {"update": "update_steps_per_s", "whole": "steps_per_s"}
QUIET = 0.9  # of its core's time is what a process gets where nothing else runs


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
        return backend(self.engine, self.agent, self.place.spec, 0, STEPS)

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


Figures = dict[str, Any]
Rates = dict[str, dict[str, list[Block]]]  # by engine and kind


def measure(suite: str, game: str | None, variant: str, engines: Sequence[str], seconds: float) -> Figures:
    """The figures of each engine; `seconds` is about how long each kind of measurement takes."""
    place, agent = place_of(suite, game), agent_named(variant)
    cost = cost_of(agent, place.spec.observation_shape, place.spec.n_actions, place.spec.box)
    contenders = [Contender(engine, agent, place) for engine in engines]
    first = {c.engine: c.warm_up(seconds / BLOCKS) for c in contenders}
    before = measure_peaks(cost)
    rates = _rates(contenders)
    after = measure_peaks(cost)  # the better of two measurements of each
    gflops, gbytes_per_s = map(max, before[:2], after[:2])
    peaks = Peaks(gflops, gbytes_per_s, min(before.blas_s, after.blas_s))
    found = {c.engine: _figures(c, rates[c.engine], cost, peaks, seconds) for c in contenders}
    for engine, taken in first.items():
        found[engine]["first_steps_s"] = taken
    notes = [*place.notes, *(_busy(engine, figures["share_of_core"]) for engine, figures in found.items())]
    return {
        "game": place.game if place.env else None,
        "notes": [note for note in notes if note],
        "peaks": _peak_figures(peaks, cost),
        "engines": found,
        **(_ratios(rates) if len(contenders) == 2 else {}),
    }


def _rates(contenders: Sequence[Contender]) -> Rates:
    """The speed of all blocks; engines and kinds take turns, so that all see the same machine."""
    rates: Rates = {c.engine: {kind: [] for kind in c.streams} for c in contenders}
    for _ in range(BLOCKS):
        for contender in contenders:
            for kind in contender.streams:
                rates[contender.engine][kind].append(contender.block(kind))
    return rates


def _figures(contender: Contender, blocks: dict[str, list[Block]], cost: Cost, peaks: Peaks, seconds: float) -> Figures:
    by_clock = {KINDS[kind]: [block.rate for block in found] for kind, found in blocks.items()}
    by_cpu = {f"cpu_{KINDS[kind]}": [block.cpu_rate for block in found] for kind, found in blocks.items()}
    update = statistics.median(by_clock["update_steps_per_s"])
    steps = int(np.clip(seconds * update / 5, 20, 20_000))
    p50, p99 = np.percentile(contender.latencies(steps) * 1e3, [50, 99])
    return {
        "steps_per_s": None,
        **{name: statistics.median(rates) for name, rates in {**by_clock, **by_cpu}.items()},
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "gflops": cost.operations * update / 1e9,
        "gbytes_per_s": cost.state_bytes * update / 1e9,
        "roofline_fraction": peaks.limit_s(cost) * update,
        "cpu_roofline_fraction": peaks.limit_s(cost) * statistics.median(by_cpu["cpu_update_steps_per_s"]),
        "spread": {name: [min(rates), max(rates)] for name, rates in by_clock.items()},
        "share_of_core": statistics.median(block.rate / block.cpu_rate for block in blocks["update"]),
        "aux_active": contender.report().get("aux_active"),
    }


def _busy(engine: str, share: float) -> str:
    if share >= QUIET:
        return ""
    return f"the machine was busy and the {engine} engine had {share:.0%} of its core; cpu_* figures leave that out"


def _peak_figures(peaks: Peaks, cost: Cost) -> Figures:
    return {
        "gflops": peaks.gflops,
        "gbytes_per_s": peaks.gbytes_per_s,
        "blas_ms": peaks.blas_s * 1e3,
        "limit_ms": peaks.limit_s(cost) * 1e3,
        "operations_per_step": cost.operations,
        "state_bytes_per_step": cost.state_bytes,
    }


def _ratios(rates: Rates) -> Figures:
    """The C learner against the definition, block by block; the median."""
    learner, reference = rates["learner"], rates["reference"]

    def ratio(kind: str, by: str) -> float:
        pairs = zip(learner[kind], reference[kind], strict=True)
        return statistics.median(getattr(f, by) / getattr(r, by) for f, r in pairs)

    most = "whole" if "whole" in learner and "whole" in reference else "update"
    return {
        "ratio": ratio(most, "rate"),
        "update_ratio": ratio("update", "rate"),
        "cpu_ratio": ratio(most, "cpu_rate"),
        "cpu_update_ratio": ratio("update", "cpu_rate"),
    }
