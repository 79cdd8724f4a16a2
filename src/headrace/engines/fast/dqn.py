"""Streaming DQN as instructions, from the latest transition or from a small memory."""

from __future__ import annotations

import numpy as np

from headrace.agents import Dqn, Replay
from headrace.engines.fast.frame import Entry, Frame
from headrace.engines.fast.kernels.rules import FLAGS, dqn_terms, recall, store
from headrace.engines.fast.memory import Program
from headrace.engines.fast.networks import Rows, ValuePass
from headrace.engines.fast.td import Td


class DqnTd(Td):
    metrics = (*Td.metrics, "overshoot", "guarded")

    def __init__(self, frame: Frame, rule: Dqn, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        self.factor = self.memory.real(rule.lr)

    def _choose_terms(self, program: Program) -> None:
        program.emit(dqn_terms, lr=self.lr, delta=self.delta, terms=self.terms)

    def account(self, program: Program, values: dict[str, int]) -> None:
        super().account(program, values)
        self._account_of_bounds(program, self.factor, values)


class ReplayTd(DqnTd):
    """DQN from a small memory: nothing can be prepared, since what is learnt from is drawn after the answer."""

    prepares = False

    def __init__(self, frame: Frame, rule: Dqn, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        assert isinstance(rule.memory, Replay)
        memory, size, shape = self.memory, rule.memory.size, frame.observation_shape
        self.count = size
        self.learning = ValuePass(frame.encoder, frame.sizes, memory, self.recalled)
        self.gradient = self._gradient()
        self.guard = self._guard(self.learning, self.gradient)
        self.stored, self.stored_flags = memory.room(size * self.width), memory.whole(*[0] * (size * FLAGS))
        self.inserted, self.draw = memory.whole(0), draws + 2
        self.flags = memory.whole(*[0] * FLAGS)
        name = "stream/agent/td/memory"
        reals = (("obs", 0, shape), ("next_obs", frame.observation_size, shape), ("reward", self.width - 1, ()))
        for key, offset, inner in reals:
            place = self.stored + offset
            frame.entries.append(Entry(f"{name}/stored/{key}", place, (size, *inner), np.float32, self.width))
        for i, key in enumerate(("action", "terminated", "truncated", "last", "greedy")):
            kind = np.int32 if key == "action" else np.bool_
            frame.entries.append(Entry(f"{name}/stored/{key}", self.stored_flags + i, (size,), kind, FLAGS))
        frame.entries.append(Entry(f"{name}/inserted", self.inserted, (), np.int32))

    def _successor(self) -> int:
        """In the transition that is recalled, for which there is room from here on."""
        size = self.frame.observation_size
        self.width = 2 * size + 1
        self.recalled = self.memory.room(self.width)
        return self.recalled + size

    def prepare(self, program: Program) -> None:
        """Nothing: which transition is learnt from is not known yet."""

    def look_ahead(self, program: Program) -> None:
        frame = self.frame
        common = {
            "stored": self.stored, "stored_flags": self.stored_flags, "inserted": self.inserted, "size": self.count,
            "width": self.width,
        }  # fmt: skip
        program.emit(store, **common, transition=frame.transition, flags=frame.flags)
        program.emit(recall, **common, transition=self.recalled, flags=self.flags, uniform=self.draw)
        self.next.encode(program, self.bootstrap_weights)
        self.learning.encode(program, self.weights)
        self.layer.through(program, self.learning)
        self.learning.finish(program, self.weights)
        self.frame.encoder.turn(program, self.weights.encoder)
        self._select(program, self.learning, self.weights, self.gradient, self.flags)
        self.pass_back(program)
        self.end_gradient(program)

    def err(self, program: Program) -> None:
        self._bootstrap(program)
        self._error(program, self.recalled + self.width - 1, self.flags + 1)
        self._choose_terms(program)
