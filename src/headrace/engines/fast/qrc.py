"""QRC(lambda) as instructions: a second network h, whose weights decay, and a gradient through max Q(s')."""

from __future__ import annotations

import numpy as np

from headrace.agents import Bounded, Qrc
from headrace.engines.fast.factored import EVERY, FactoredLayer, Motion, pays
from headrace.engines.fast.frame import Entry, Frame
from headrace.engines.fast.kernels.accounts import copy, root
from headrace.engines.fast.kernels.flat import decay
from headrace.engines.fast.kernels.outers import outer_decay
from headrace.engines.fast.kernels.rules import keep_trace, qrc_terms
from headrace.engines.fast.memory import Program
from headrace.engines.fast.networks import DenseLayer, Rows, ValuePass
from headrace.engines.fast.td import VALUE_MODULES, Gradient, Td
from headrace.engines.fast.updates import at, learns_from_td_alone


class QrcTd(Td):
    metrics = (*Td.metrics, "overshoot", "guarded", "h", "h_update_norm")

    def __init__(self, frame: Frame, rule: Qrc, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        memory = self.memory
        self.differentiates_bootstrap = self.target.is_online
        self.h_weights = frame.value_weights("h_")
        self.h = ValuePass(frame.encoder, frame.sizes, memory, frame.obs)
        self.h_gradient = Gradient(
            frame.scratch("h_encoder"), frame.scratch("h_head"), memory.row(frame.sizes.latent), self.h.d
        )
        self.v_gradient = Gradient(frame.scratch("encoder"), frame.scratch("head"), self.next.x, self.next.d)
        self.h_guard = self._guard(self.h, self.h_gradient)
        self.v_guard = self._guard(self.next, self.v_gradient)
        self.traces = {name: frame.block(name, f"td/q_grad_trace/{name}") for name in VALUE_MODULES}
        self.h_traces = {name: frame.block("h_" + name, f"td/h_grad_trace/{name}") for name in VALUE_MODULES}
        self.h_trace = memory.real(0.0)
        frame.entries.append(Entry("stream/agent/td/h_trace", self.h_trace, ()))
        self.h_lr, self.regularizer = memory.real(rule.lr * rule.h_lr_scale), memory.real(rule.regularizer)
        self.h_terms, self.h_decay, self.h_square = memory.real(0.0, 0.0, 0.0), memory.real(0.0), memory.sum()
        self.decay = memory.real(rule.gamma * rule.lamda)
        keep, written_out = rule.gamma * rule.lamda, isinstance(frame.agent.merge, Bounded)  # as its step is measured
        online = self.target.is_online and not written_out
        if learns_from_td_alone(frame.agent) and online and pays(self.weights.projection, keep):
            self.layer = FactoredLayer(frame, "projection", self.traces["projection"], keep, 2, 0)
        self.h_layer: DenseLayer | FactoredLayer = DenseLayer(self.h_weights.projection)
        if pays(self.h_weights.projection, keep) and not written_out:
            self.h_layer = FactoredLayer(frame, "h_projection", self.h_traces["projection"], keep, 1, EVERY // 2)
        self.factor = memory.real(rule.lr / (1 - rule.gamma * rule.lamda) if rule.gamma * rule.lamda < 1 else np.inf)

    def begin_gradient(self, program: Program) -> None:
        """That of h(s, a) is made as a whole: nothing else goes through its network."""
        program.emit(keep_trace, cut=self.cut, decay=self.decay, keep=self.keep)
        super().begin_gradient(program)
        self.frame.encoder.turn(program, self.h_weights.encoder)
        self.h.finish(program, self.h_weights)
        self._select(program, self.h, self.h_weights, self.h_gradient, self.frame.action)
        self.h_layer.back(program, self.h)
        self.h.back_to_image(program, self.h_weights, self.h_gradient.encoder)
        self.h_guard.measure_and_bound(program)

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
            self.v_guard.measure_and_bound(program)

    def value_gradient(self) -> Gradient | None:
        return self.v_gradient if self.differentiates_bootstrap else None

    def forget(self, program: Program) -> None:
        self._cut(program)

    @property
    def factored(self) -> list[FactoredLayer]:
        return [layer for layer in (self.layer, self.h_layer) if isinstance(layer, FactoredLayer)]

    def clear_traces(self, f: np.ndarray) -> None:
        super().clear_traces(f)
        f[self.h_trace] = 0
        self._clear(f, self.h_traces, self.h_layer)

    def move_beside(self, program: Program) -> None:
        """Encoder and head of h."""
        for name, gradient in (("encoder", self.h_gradient.encoder), ("head", self.h_gradient.head)):
            program.emit(
                decay, w=self.frame.params["h_" + name].offset, z=self.h_traces[name].offset, g=gradient.offset,
                size=gradient.size, keep=self.keep, terms=self.h_terms, rate=self.h_decay, square=self.h_square,
            )  # fmt: skip

    def see(self, program: Program) -> None:
        sizes = self.frame.sizes
        program.emit(copy, source=self.h.x, out=self.h_gradient.x, size=sizes.latent)
        self.h.encode(program, self.h_weights)
        if isinstance(self.h_layer, FactoredLayer):
            motion = Motion(
                self.keep, self.h_terms, self.h_square, self.h_gradient.x, self.h_gradient.d, rate=self.h_decay
            )
            self.h_layer.move(program, motion, self.h, None)
            self.h_layer.through(program, self.h)
            return
        program.emit(
            outer_decay, inputs=sizes.latent + 1, outputs=sizes.hidden, w=self.h_weights.projection.offset,
            z=at(self.h_traces["projection"]), keep=self.keep, x=self.h_gradient.x, d=self.h_gradient.d,
            terms=self.h_terms, rate=self.h_decay, square=self.h_square, x_next=self.h.x, y=self.h.y,
        )  # fmt: skip

    def see_first(self, program: Program) -> None:
        self.h.encode(program, self.h_weights)
        self.h_layer.through(program, self.h)

    def account(self, program: Program, values: dict[str, int]) -> None:
        super().account(program, values)
        self._account_of_bounds(program, self.factor, values)
        program.emit(copy, source=self.h.value, out=values["h"], size=1)
        program.emit(root, square=self.h_square, out=values["h_update_norm"])
