"""The fast engine as an object: an agent on one stream, stepped from Python."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from headrace import agents
from headrace.agents import Agent, fit
from headrace.engines.base import Episode
from headrace.engines.fast.frame import check_fit
from headrace.engines.fast.machine import FINE, carry_out
from headrace.engines.fast.memory import Program
from headrace.engines.fast.overlap import Alone, Overlapped
from headrace.engines.fast.starting import key_of, start_parameters
from headrace.engines.fast.stream import StreamPlan
from headrace.engines.fast.warming import compile_beforehand
from headrace.envs.answers import numbers
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import BadSetting, EnvironmentFault
from headrace.part import Part

KNOWN = {
    agents.Agent, agents.EpsilonGreedy, agents.BySuite, agents.Conv, agents.Mlp,
    agents.Dqn, agents.StreamQ, agents.Qrc, agents.Online, agents.Copy, agents.Polyak, agents.Latest, agents.Replay,
    agents.NoAuxiliary, agents.Auxiliary, agents.Spr, agents.Episode, agents.ReleasedRing, agents.Shared,
    agents.Separate, agents.SumOverHorizon, agents.MeanOverHorizon, agents.AsIs, agents.ShiftAndIntensity,
    agents.Clipped, agents.Always, agents.Every, agents.Greedy, agents.Unfiltered, agents.Orth, agents.Raw,
    agents.Projected, agents.RawCurrent, agents.Sum, agents.Mix, agents.SharedFlipped, agents.AuxOrthogonalToTd,
    agents.Present, agents.Average, agents.PcGrad, agents.Clip, agents.Unguarded,
    agents.Bounded, agents.LeakyNorm, agents.Relu, agents.Apart, agents.Together, agents.Kept, agents.Fading,
    agents.Limited, agents.Unlimited,
}  # fmt: skip


def supports(agent: Agent, observation_shape: tuple[int, ...]) -> str | None:
    """Why this engine cannot run the agent; nothing where it can."""
    fit(agent.network, observation_shape)
    strange = sorted(kind.__name__ for kind in _kinds(agent) - KNOWN)
    return f"it does not know {', '.join(strange)}" if strange else None


def _kinds(part: Part) -> set[type]:
    """The types of a part and of all parts in it."""
    inner = (getattr(part, field.name) for field in dataclasses.fields(part))
    return {type(part)}.union(*(_kinds(value) for value in inner if isinstance(value, Part)))


def _workers(threads: int, plan: StreamPlan, *memory: np.ndarray) -> Alone | Overlapped:
    if threads not in (1, 2):
        raise BadSetting(f"the fast engine uses 1 or 2 threads, got {threads}")
    if threads == 1:
        return Alone(plan.alone.rows())
    return Overlapped(plan.prepare.rows(), plan.respond.rows(), *memory)


class FastEngine:
    """One agent on one stream: `begin`, then `action` and `learn` in turn. Each transition is seen once."""

    name = "fast"

    def __init__(self, agent: Agent, spec: EnvSpec, *, seed: int, steps: int, threads: int = 1) -> None:
        compile_beforehand()
        self.agent, self.spec = agent, spec
        plan = self._plan = StreamPlan(agent, spec)
        self._seed, self._steps = seed, steps
        self._f, self._s, self._n = plan.frame.memory.allocate()
        self._work = _workers(threads, plan, self._f, self._s, self._n)
        self._n[plan.seed : plan.seed + 2] = key_of(seed)
        self._f[plan.total] = steps
        size, shape = plan.frame_size, spec.frame_shape
        self._successor = self._f[plan.raw_successor : plan.raw_successor + size].reshape(shape)
        self._first_obs = self._f[plan.raw_obs : plan.raw_obs + size].reshape(shape)
        frame = plan.frame
        self._flags = frame.terminated, frame.truncated, frame.last
        within = [plan.raw_successor, size, plan.raw_reward, 1]
        self._checked, self._checked_at_end = np.array(within), np.array([*within, plan.raw_obs, size])
        self._begun = False

    @property
    def step(self) -> int:
        """Transitions learnt from so far."""
        return int(self._n[self._plan.frame.step])

    @property
    def action(self) -> int:
        """The action to take now."""
        self._check_begun()
        return int(self._n[self._plan.frame.action])

    def begin(self, obs: np.ndarray) -> None:
        """Starts with the environment's first observation."""
        self._work.wait()
        self._first_obs[...] = self._array(obs, "first observation", self.spec.frame_shape)
        start_parameters(self._plan.frame, self._f, self._seed)
        for target in self._plan.targets:
            target.start(self._f)
        for layer in self._plan.td.factored:
            layer.start(self._f, self._n)
        self._carry_out(self._plan.begin)
        self._begun = True
        self._work.start()

    def restart(self, obs: np.ndarray) -> None:
        """Goes on with another episode where the present one cannot: traces and window empty, nothing learnt."""
        self._check_begun()
        self._work.wait()
        self._first_obs[...] = self._array(obs, "first observation", self.spec.frame_shape)
        self._plan.break_off(self._f, self._n)
        self._carry_out(self._plan.begin)
        self._work.start()

    def learn(self, timestep: TimeStep) -> Episode | None:
        """Learns from what `action` led to; returns the episode if it ended there."""
        self._check_begun()
        f, n, plan = self._f, self._n, self._plan
        terminated, truncated, last = self._flags
        self._take(timestep.successor, self._successor, "successor")
        if timestep.last:
            self._take(timestep.obs, self._first_obs, "observation")
        f[plan.raw_reward] = self._reward(timestep.reward)
        n[terminated], n[truncated], n[last] = timestep.terminated, timestep.truncated, timestep.last
        checked = self._checked_at_end if timestep.last else self._checked
        self._work.wait()
        plan.sight.keep(f, n)
        if carry_out(self._work.rows, f, self._s, n, checked) != FINE:
            raise self._fault_in(timestep)
        self._work.start()
        if not timestep.last:
            return None
        return Episode(self.step, float(f[plan.finished_return]), int(n[plan.finished_length]))

    def report(self) -> dict[str, float]:
        """Means over the steps since the last report, those of the auxiliary over the steps on which it learnt; and how
        well the agent sees now."""
        self._check_begun()
        self._work.wait()
        plan, counts = self._plan, self._n[self._plan.counts : self._plan.counts + 2]
        steps, active = (int(count) for count in counts)
        names = (*plan.always, *plan.beside_names)
        sums = self._f[plan.sums : plan.sums + len(names)]
        totals = dict(zip(names, sums.tolist(), strict=True))
        always = {name: _ratio(totals[name], steps) for name in sorted(plan.always)}
        beside = {name: _ratio(totals[name], active) for name in sorted(plan.beside_names)}
        sums[:], counts[:] = 0, 0
        share = {"aux_active": _ratio(active, steps)} if beside else {}
        return {**always, **beside, **share, **self._plan.sight.measured(self._f, self._s, self._n)}

    def trouble(self) -> tuple[str, int] | None:
        """The first quantity that was not finite and the step it happened at, if any."""
        at, which = self._n[self._plan.counts + 2 : self._plan.counts + 4].tolist()
        return None if at < 0 else (self._plan.watched[which], at)

    def save(self) -> dict[str, np.ndarray]:
        """Everything the stream knows, as named arrays: the same names and shapes as the reference engine's, and more
        where a layer is kept as factors."""
        self._check_begun()
        self._work.wait()
        self._plan.settle(self._f, self._n)
        arrays = {entry.name: entry.read(self._f, self._n) for entry in self._plan.frame.entries}
        for layer in self._plan.td.factored:
            arrays.update(layer.save(self._f, self._n))
        return arrays

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        entries = self._plan.frame.entries
        for entry in entries:
            check_fit(entry, arrays)
        for layer in self._plan.td.factored:
            layer.check_fit(arrays)
        self._work.wait()
        for entry in entries:
            entry.write(self._f, self._n, arrays[entry.name])
        for layer in self._plan.td.factored:
            layer.restore(self._f, self._n, arrays)
        self._plan.put_nothing_off(self._n)
        self._carry_out(self._plan.resume)
        self._begun = True
        self._work.start()

    def _carry_out(self, program: Program) -> None:
        carry_out(program.rows(), self._f, self._s, self._n, np.zeros(0, np.int64))

    def _check_begun(self) -> None:
        if not self._begun:
            raise RuntimeError("begin(first_observation) comes before anything else")

    def _take(self, obs: Any, place: np.ndarray, what: str) -> None:
        """Puts an observation into the machine's memory; whether it is finite is looked at there."""
        if type(obs) is np.ndarray and obs.shape == place.shape and obs.dtype.kind in "biuf":
            place[...] = obs
        else:
            place[...] = self._array(obs, what, place.shape)

    def _reward(self, reward: Any) -> Any:
        return reward if type(reward) in (float, int) else self._array(reward, "reward", ())

    def _array(self, value: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
        return numbers(value, what, shape, self.spec.name, self.step + 1 if self._begun else 0)

    def _fault_in(self, timestep: TimeStep) -> EnvironmentFault:
        """What is not finite in an answer, found the slow way."""
        shape = self.spec.frame_shape
        answer = (("observation", timestep.obs, shape), ("successor", timestep.successor, shape))
        try:
            for what, value, wanted in (*answer, ("reward", timestep.reward, ())):
                self._array(value, what, wanted)
        except EnvironmentFault as fault:
            return fault
        raise AssertionError("every number of the answer is finite")


def _ratio(total: float, count: int) -> float:
    return total / count if count else float("nan")
