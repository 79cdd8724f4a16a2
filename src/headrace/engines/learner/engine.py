"""The C learner as an engine: an agent on one stream, stepped from Python."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from headrace.agents import Agent, fit
from headrace.engines.base import EpisodeResult
from headrace.engines.learner.block import Block
from headrace.engines.learner.description import strange_parts
from headrace.engines.learner.sight import sight
from headrace.engines.metrics import watched
from headrace.envs.answers import numbers
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import EnvironmentFault

TERMINATED, TRUNCATED, LAST = 1, 2, 4
TALLY = "stream/tally/"
SUMS, AUX_SUMS = TALLY + "sums/", TALLY + "aux_sums/"


def supports(agent: Agent, observation_shape: tuple[int, ...]) -> str | None:
    """Why this engine cannot run the agent; nothing where it can."""
    fit(agent.network, observation_shape)
    strange = strange_parts(agent)
    return f"it does not know {', '.join(strange)}" if strange else None


class LearnerEngine:
    """One agent on one stream: `begin`, then `action` and `learn` in turn. Each transition is seen once."""

    name = "learner"

    def __init__(self, agent: Agent, spec: EnvSpec, *, seed: int, steps: int) -> None:
        self.agent, self.spec = agent, spec
        self._block = Block(agent, spec, seed=seed, steps=steps)
        self._c, self._pointer = self._block.c, self._block.pointer
        self._successor, self._frame = (np.zeros(spec.frame_shape, np.float32) for _ in range(2))
        self._places = self._successor.ctypes.data, self._frame.ctypes.data
        self._step = self._block.arrays["stream/agent/step"]
        self._point = self._block.arrays["stream/choice/action"]  # in a box
        self._begun = False

    @property
    def step(self) -> int:
        """Transitions learnt from so far."""
        return int(self._step)

    @property
    def action(self) -> Any:
        """The action to take now: its number, or in a box its numbers."""
        self._check_begun()
        return self._point.copy() if self.spec.box else int(self._c.hr_action(self._pointer))

    def begin(self, obs: np.ndarray) -> None:
        """Starts with the environment's first observation."""
        self._take(obs, self._frame, "first observation")
        self._c.hr_begin(self._pointer, self._places[1])
        self._begun = True

    def restart(self, obs: np.ndarray) -> None:
        """Goes on with another episode where the present one cannot: traces and window empty, nothing learnt."""
        self._check_begun()
        self._take(obs, self._frame, "first observation")
        self._c.hr_restart(self._pointer, self._places[1])

    def learn(self, timestep: TimeStep) -> EpisodeResult | None:
        """Learns from what `action` led to; returns the episode if it ended there."""
        self._check_begun()
        self._take(timestep.successor, self._successor, "successor")
        if timestep.last:
            self._take(timestep.obs, self._frame, "observation")
        reward = timestep.reward
        if type(reward) not in (float, int):
            reward = float(self._array(reward, "reward", ()))
        flags = TERMINATED * bool(timestep.terminated) + TRUNCATED * bool(timestep.truncated)
        flags += LAST * bool(timestep.last)
        if self._c.hr_learn(self._pointer, *self._places, reward, flags):
            raise self._fault_in(timestep)
        if not timestep.last:
            return None
        ended = self._c.hr_finished(self._pointer)
        return EpisodeResult(ended.step, ended.episode_return, ended.length)

    def report(self) -> dict[str, float]:
        """Means over the steps since the last report, those of the auxiliary over the steps on which it learnt; and how
        well the agent sees now."""
        self._check_begun()
        arrays = self._block.arrays
        steps, active = (int(arrays[f"{TALLY}{name}"]) for name in ("steps", "active_steps"))
        always, beside = self._means(SUMS, steps), self._means(AUX_SUMS, active)
        arrays[f"{TALLY}steps"][...] = arrays[f"{TALLY}active_steps"][...] = 0
        share = {"aux_active": _ratio(active, steps)} if beside else {}
        return {**always, **beside, **share, **sight(self._block)}

    def _means(self, group: str, count: int) -> dict[str, float]:
        sums = {name: array for name, array in self._block.arrays.items() if name.startswith(group)}
        means = {name.removeprefix(group): _ratio(float(sums[name]), count) for name in sorted(sums)}
        for array in sums.values():
            array[...] = 0
        return means

    def trouble(self) -> tuple[str, int] | None:
        """The first quantity that was not finite and the step it happened at, if any."""
        arrays = self._block.arrays
        step = int(arrays[f"{TALLY}bad_step"])
        names = watched(name.rpartition("/")[2] for name in arrays if name.startswith((SUMS, AUX_SUMS)))
        return None if step < 0 else (names[int(arrays[f"{TALLY}bad_quantity"])], step)

    def save(self) -> dict[str, np.ndarray]:
        """Everything the stream knows, as named arrays: the same names and shapes as the definition's."""
        self._check_begun()
        return self._block.save()

    def arrays(self) -> dict[str, np.ndarray]:
        """The same without a copy, until the next step."""
        self._check_begun()
        return self._block.settled()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._block.restore(arrays)
        self._begun = True

    def together(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """The learner that has begun, and the function that it learns by, for a loop in C."""
        self._check_begun()
        return ctypes.c_void_p(self._pointer), ctypes.cast(self._c.hr_learn, ctypes.c_void_p)

    def _check_begun(self) -> None:
        if not self._begun:
            raise RuntimeError("call begin(obs) first")

    def _take(self, obs: Any, place: np.ndarray, what: str) -> None:
        """Copies an observation to where the learner reads it; whether it is finite is checked there, but at first."""
        if self._begun and type(obs) is np.ndarray and obs.shape == place.shape and obs.dtype.kind in "biuf":
            place[...] = obs
        else:
            place[...] = self._array(obs, what, place.shape)

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
