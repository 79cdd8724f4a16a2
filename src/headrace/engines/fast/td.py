"""The three value-learning rules as instructions.

`prepare` needs only what is known when the action has been chosen; `bootstrap`, `err` and `descend` come after the
environment's answer, in this order; `Agent`-wide steps lie between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from headrace.agents import Dqn, Qrc, Replay, StreamQ
from headrace.engines.fast.frame import Entry, Frame
from headrace.engines.fast.kernels.accounts import copy, overshoot, root, size_of
from headrace.engines.fast.kernels.flat import decay, follow_trace, squared_norm, trace_size
from headrace.engines.fast.kernels.outers import outer_decay, outer_squared_norm, outer_trace_size
from headrace.engines.fast.kernels.rules import (
    FLAGS,
    cut_trace,
    dqn_terms,
    keep_trace,
    qrc_terms,
    recall,
    select,
    select_best,
    store,
    stream_q_terms,
    td_error,
)
from headrace.engines.fast.memory import NONE, Block, Program
from headrace.engines.fast.networks import Rows, ValuePass, ValueWeights
from headrace.engines.fast.targets import Target
from headrace.engines.fast.updates import at

VALUE_MODULES = ("encoder", "projection", "head")


@dataclass(frozen=True)
class Gradient:
    """Gradients of a value network that are written out, and the rows that the projection's is made of."""

    encoder: Block
    head: Block
    x: int
    d: int


class Td:
    """What the rules have in common. `acting` is the evaluation of Q at the observation to be acted on."""

    metrics: tuple[str, ...] = ("td_error", "q", "q_gradient_norm", "td_update_norm")
    differentiates_bootstrap = False

    def __init__(self, frame: Frame, rule: Dqn | StreamQ | Qrc, draws: int, rows: Rows) -> None:
        memory = self.memory = frame.memory
        self.frame, self.rule = frame, rule
        self.weights = frame.value_weights()
        self.target = Target(frame, rule.target, VALUE_MODULES, "td/target")
        self.bootstrap_weights = ValueWeights(*(self.target.blocks[name] for name in VALUE_MODULES))
        self.acting = ValuePass(frame.encoder, frame.sizes, memory)
        self.learning = self.acting
        self.next = ValuePass(frame.encoder, frame.sizes, memory, rows)
        self.gradient = self._gradient()
        self.traces: dict[str, Block] = {}
        self.lr, self.delta, self.discount = memory.real(rule.lr), memory.real(0.0), memory.real(0.0)
        self.keep, self.terms = memory.real(0.0), memory.real(0.0, 0.0, 0.0)
        self.td_square, self.gradient_square = memory.sum(), memory.sum()
        self.cut = memory.whole(0)

    def _gradient(self, prefix: str = "") -> Gradient:
        """The latent that belongs to the gradient is kept apart: the next one is made before it is used up."""
        frame = self.frame
        x = frame.memory.row(frame.sizes.latent)
        return Gradient(frame.scratch(prefix + "encoder"), frame.scratch(prefix + "head"), x, self.learning.d)

    # before the environment's answer

    def prepare(self, program: Program) -> None:
        """The gradient of Q(s, a)."""
        self.frame.encoder.turn(program, self.weights.encoder)
        self._differentiate(program, self.learning, self.weights, self.gradient, self.frame.action)
        self._measure(program)

    def _differentiate(
        self, program: Program, value: ValuePass, weights: ValueWeights, gradient: Gradient, action: int
    ) -> None:
        program.emit(
            select, values=value.q, actions=value.n_actions, action=action, value=value.value, slopes=value.slopes
        )
        value.back_to_projection(program, weights, gradient.head)
        value.back_to_latent(program, weights)
        value.back_to_image(program, weights, gradient.encoder)

    def _measure(self, program: Program) -> None:
        sizes = self.frame.sizes
        for block in (self.gradient.encoder, self.gradient.head):
            program.emit(squared_norm, a=block.offset, size=block.size, out=self.gradient_square)
        program.emit(
            outer_squared_norm, x=self.learning.x, d=self.learning.d, count=1, inputs=sizes.latent + 1,
            outputs=sizes.hidden, out=self.gradient_square,
        )  # fmt: skip

    # after it

    def look_ahead(self, program: Program) -> None:
        """The latent of s'; its way through the projection is shared with others'."""
        self.next.encode(program, self.bootstrap_weights, self.frame.next_obs)

    def err(self, program: Program) -> None:
        """The TD error, and how far to go along each direction."""
        self._bootstrap(program)
        self._error(program, self.frame.reward, self.frame.terminated)
        self._choose_terms(program)

    def _bootstrap(self, program: Program) -> None:
        following = self.next
        following.finish(program, self.bootstrap_weights)
        program.emit(
            select_best, values=following.q, actions=following.n_actions, value=following.value,
            slopes=following.slopes,
        )  # fmt: skip

    def _error(self, program: Program, reward: int, terminated: int) -> None:
        program.emit(
            td_error, q=self.learning.value, reward=reward, gamma=self.frame.gamma, terminated=terminated,
            v=self.next.value, discount=self.discount, delta=self.delta,
        )  # fmt: skip

    def _choose_terms(self, program: Program) -> None:
        raise NotImplementedError

    def back_from_bootstrap(self, program: Program) -> None:
        """From max Q(s') to the projection, where its gradient counts."""

    def back_to_next_image(self, program: Program) -> None:
        """On to the encoder, once the projection has been gone back through."""

    def value_gradient(self) -> Gradient | None:
        return None

    def clear_traces(self, f: np.ndarray) -> None:
        """Forgets traces that were cut."""
        for trace in self.traces.values():
            f[trace.offset : trace.offset + trace.size] = 0

    def forget(self, program: Program) -> None:
        """Traces are cut after the step in which the episode ended or the action was not greedy."""

    def move_beside(self, program: Program) -> None:
        """Modules of the rule's own, except for what `see` does."""

    def see(self, program: Program, obs: int) -> None:
        """Evaluates at the observation to be acted on what the rule has beside Q; its own modules move on the way."""

    def see_first(self, program: Program, obs: int) -> None:
        """As `see` where nothing moves: at the very beginning, or after a restart of the program."""

    def account(self, program: Program, values: dict[str, int]) -> None:
        """The rule's metrics of this step."""
        program.emit(size_of, a=self.delta, out=values["td_error"])
        program.emit(root, square=self.gradient_square, out=values["q_gradient_norm"])
        program.emit(root, square=self.td_square, out=values["td_update_norm"])
        program.emit(copy, source=self.learning.value, out=values["q"], size=1)

    def _overshoot(self, program: Program, factor: int, values: dict[str, int]) -> None:
        program.emit(overshoot, square=self.gradient_square, factor=factor, out=values["overshoot"])


class StreamQTd(Td):
    metrics = (*Td.metrics, "step_size")

    def __init__(self, frame: Frame, rule: StreamQ, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        memory = self.memory
        self.traces = {name: frame.block(name, f"td/trace/{name}") for name in VALUE_MODULES}
        self.kappa, self.step_size, self.size = memory.real(rule.kappa), memory.real(0.0), memory.sum()
        self.decay, self._sums = memory.real(rule.gamma * rule.lamda), memory.room(frame.sizes.hidden)

    def prepare(self, program: Program) -> None:
        program.emit(keep_trace, cut=self.cut, decay=self.decay, keep=self.keep)
        super().prepare(program)
        sizes = self.frame.sizes
        for name, block in (("encoder", self.gradient.encoder), ("head", self.gradient.head)):
            program.emit(
                trace_size, z=self.traces[name].offset, g=block.offset, size=block.size, keep=self.keep, out=self.size
            )
        program.emit(
            outer_trace_size, z=self.traces["projection"].offset, x=self.acting.x, d=self.acting.d,
            inputs=sizes.latent + 1, outputs=sizes.hidden, keep=self.keep, sums=self._sums, out=self.size,
        )  # fmt: skip

    def _choose_terms(self, program: Program) -> None:
        program.emit(
            stream_q_terms, lr=self.lr, kappa=self.kappa, delta=self.delta, size=self.size, terms=self.terms,
            step_size=self.step_size,
        )  # fmt: skip

    def forget(self, program: Program) -> None:
        _forget(self, program)

    def account(self, program: Program, values: dict[str, int]) -> None:
        super().account(program, values)
        program.emit(copy, source=self.step_size, out=values["step_size"], size=1)


def _forget(td: Td, program: Program) -> None:
    frame = td.frame
    program.emit(cut_trace, terminated=frame.terminated, truncated=frame.truncated, greedy=frame.greedy, cut=td.cut)


class DqnTd(Td):
    metrics = (*Td.metrics, "overshoot")

    def __init__(self, frame: Frame, rule: Dqn, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        self.factor = self.memory.real(rule.lr)

    def _choose_terms(self, program: Program) -> None:
        program.emit(dqn_terms, lr=self.lr, delta=self.delta, terms=self.terms)

    def account(self, program: Program, values: dict[str, int]) -> None:
        super().account(program, values)
        self._overshoot(program, self.factor, values)


class ReplayTd(DqnTd):
    """DQN from a small memory: nothing can be prepared, since what is learnt from is drawn after the answer."""

    def __init__(self, frame: Frame, rule: Dqn, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        assert isinstance(rule.memory, Replay)
        memory, size, shape = self.memory, rule.memory.size, frame.observation_shape
        self.count, self.width = size, 2 * frame.observation_size + 1
        self.learning = ValuePass(frame.encoder, frame.sizes, memory)
        self.gradient = self._gradient()
        self.stored, self.stored_flags = memory.room(size * self.width), memory.whole(*[0] * (size * FLAGS))
        self.inserted, self.draw = memory.whole(0), draws + 2
        self.recalled, self.flags = memory.room(self.width), memory.whole(*[0] * FLAGS)
        name = "stream/agent/td/memory"
        reals = (("obs", 0, shape), ("next_obs", frame.observation_size, shape), ("reward", self.width - 1, ()))
        for key, offset, inner in reals:
            place = self.stored + offset
            frame.entries.append(Entry(f"{name}/stored/{key}", place, (size, *inner), np.float32, self.width))
        for i, key in enumerate(("action", "terminated", "truncated", "last", "greedy")):
            kind = np.int32 if key == "action" else np.bool_
            frame.entries.append(Entry(f"{name}/stored/{key}", self.stored_flags + i, (size,), kind, FLAGS))
        frame.entries.append(Entry(f"{name}/inserted", self.inserted, (), np.int32))

    def prepare(self, program: Program) -> None:
        pass

    def look_ahead(self, program: Program) -> None:
        frame = self.frame
        common = {
            "stored": self.stored, "stored_flags": self.stored_flags, "inserted": self.inserted, "size": self.count,
            "width": self.width,
        }  # fmt: skip
        program.emit(store, **common, transition=frame.transition, flags=frame.flags)
        program.emit(recall, **common, transition=self.recalled, flags=self.flags, uniform=self.draw)
        self.next.encode(program, self.bootstrap_weights, self.recalled + frame.observation_size)
        self.learning.encode(program, self.weights, self.recalled)
        self.learning.project(program, self.weights)
        self.learning.finish(program, self.weights)
        self.frame.encoder.turn(program, self.weights.encoder)
        self._differentiate(program, self.learning, self.weights, self.gradient, self.flags)
        self._measure(program)

    def err(self, program: Program) -> None:
        self._bootstrap(program)
        self._error(program, self.recalled + self.width - 1, self.flags + 1)
        self._choose_terms(program)


class QrcTd(Td):
    metrics = (*Td.metrics, "overshoot", "h", "h_update_norm")

    def __init__(self, frame: Frame, rule: Qrc, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        memory = self.memory
        self.differentiates_bootstrap = self.target.is_online
        self.h_weights = frame.value_weights("h_")
        self.h = ValuePass(frame.encoder, frame.sizes, memory, image=self.acting)
        self.h_gradient = Gradient(
            frame.scratch("h_encoder"), frame.scratch("h_head"), memory.row(frame.sizes.latent), self.h.d
        )
        self.v_gradient = Gradient(frame.scratch("encoder"), frame.scratch("head"), self.next.x, self.next.d)
        self.traces = {name: frame.block(name, f"td/q_grad_trace/{name}") for name in VALUE_MODULES}
        self.h_traces = {name: frame.block("h_" + name, f"td/h_grad_trace/{name}") for name in VALUE_MODULES}
        self.h_trace = memory.real(0.0)
        frame.entries.append(Entry("stream/agent/td/h_trace", self.h_trace, ()))
        self.h_lr, self.regularizer = memory.real(rule.lr * rule.h_lr_scale), memory.real(rule.regularizer)
        self.h_terms, self.h_decay, self.h_square = memory.real(0.0, 0.0, 0.0), memory.real(0.0), memory.sum()
        self.scrap = memory.sum()  # the norm of an update that is not whole yet
        self.decay = memory.real(rule.gamma * rule.lamda)
        self.factor = memory.real(rule.lr / (1 - rule.gamma * rule.lamda) if rule.gamma * rule.lamda < 1 else np.inf)
        self._u = {name: frame.scratch("h_" + name) for name in ("encoder", "head")}

    def prepare(self, program: Program) -> None:
        program.emit(keep_trace, cut=self.cut, decay=self.decay, keep=self.keep)
        super().prepare(program)
        self.frame.encoder.turn(program, self.h_weights.encoder)
        self.h.finish(program, self.h_weights)
        self._differentiate(program, self.h, self.h_weights, self.h_gradient, self.frame.action)

    def _choose_terms(self, program: Program) -> None:
        program.emit(
            qrc_terms, lr=self.lr, h_lr=self.h_lr, regularizer=self.regularizer, delta=self.delta, h=self.h.value,
            h_trace=self.h_trace, keep=self.keep, discount=self.discount, terms=self.terms, h_terms=self.h_terms,
            h_decay=self.h_decay,
        )  # fmt: skip

    def back_from_bootstrap(self, program: Program) -> None:
        if self.differentiates_bootstrap:
            self.next.back_to_projection(program, self.weights, self.v_gradient.head)

    def back_to_next_image(self, program: Program) -> None:
        if self.differentiates_bootstrap:
            self.next.back_to_image(program, self.weights, self.v_gradient.encoder)

    def value_gradient(self) -> Gradient | None:
        return self.v_gradient if self.differentiates_bootstrap else None

    def forget(self, program: Program) -> None:
        _forget(self, program)

    def clear_traces(self, f: np.ndarray) -> None:
        super().clear_traces(f)
        f[self.h_trace] = 0
        for trace in self.h_traces.values():
            f[trace.offset : trace.offset + trace.size] = 0

    def move_beside(self, program: Program) -> None:
        """Encoder and head of h."""
        gradients = {"encoder": self.h_gradient.encoder, "head": self.h_gradient.head}
        for name, gradient in gradients.items():
            u, weights = self._u[name], self.frame.params["h_" + name]
            program.emit(
                follow_trace, z=self.h_traces[name].offset, g=gradient.offset, v=NONE, u=u.offset, size=u.size,
                keep=self.keep, terms=self.h_terms, square=self.scrap,
            )  # fmt: skip
            program.emit(decay, w=weights.offset, u=u.offset, size=u.size, rate=self.h_decay, square=self.h_square)

    def see(self, program: Program, obs: int) -> None:
        sizes = self.frame.sizes
        program.emit(copy, source=self.h.x, out=self.h_gradient.x, size=sizes.latent)
        self.h.encode(program, self.h_weights, obs)
        program.emit(
            outer_decay, inputs=sizes.latent + 1, outputs=sizes.hidden, w=self.h_weights.projection.offset,
            z=at(self.h_traces["projection"]), keep=self.keep, x=self.h_gradient.x, d=self.h_gradient.d,
            terms=self.h_terms, rate=self.h_decay, square=self.h_square, x_next=self.h.x, y=self.h.y,
        )  # fmt: skip

    def see_first(self, program: Program, obs: int) -> None:
        self.h.encode(program, self.h_weights, obs)
        self.h.project(program, self.h_weights)

    def account(self, program: Program, values: dict[str, int]) -> None:
        super().account(program, values)
        self._overshoot(program, self.factor, values)
        program.emit(copy, source=self.h.value, out=values["h"], size=1)
        program.emit(root, square=self.h_square, out=values["h_update_norm"])


@singledispatch
def td_of(rule: Any, frame: Frame, draws: int, rows: Rows) -> Td:
    raise TypeError(f"no value-learning rule for {rule!r}")


@td_of.register
def _(rule: Dqn, frame: Frame, draws: int, rows: Rows) -> Td:
    kind = ReplayTd if isinstance(rule.memory, Replay) else DqnTd
    return kind(frame, rule, draws, rows)


@td_of.register
def _(rule: StreamQ, frame: Frame, draws: int, rows: Rows) -> Td:
    return StreamQTd(frame, rule, draws, rows)


@td_of.register
def _(rule: Qrc, frame: Frame, draws: int, rows: Rows) -> Td:
    return QrcTd(frame, rule, draws, rows)
