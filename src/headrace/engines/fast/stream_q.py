"""Stream Q(lambda) as instructions: the length of the trace is known before the environment answers."""

from __future__ import annotations

from headrace.agents import StreamQ
from headrace.engines.fast.frame import Frame
from headrace.engines.fast.kernels.accounts import copy
from headrace.engines.fast.kernels.flat import trace_size
from headrace.engines.fast.kernels.outers import outer_trace_size
from headrace.engines.fast.kernels.rules import keep_trace, stream_q_terms
from headrace.engines.fast.memory import Program
from headrace.engines.fast.networks import Rows
from headrace.engines.fast.td import VALUE_MODULES, Td


class StreamQTd(Td):
    metrics = (*Td.metrics, "step_size")

    def __init__(self, frame: Frame, rule: StreamQ, draws: int, rows: Rows) -> None:
        super().__init__(frame, rule, draws, rows)
        memory = self.memory
        self.traces = {name: frame.block(name, f"td/trace/{name}") for name in VALUE_MODULES}
        self.kappa, self.step_size, self.size = memory.real(rule.kappa), memory.real(0.0), memory.sum()
        self.decay = memory.real(rule.gamma * rule.lamda)

    def begin_gradient(self, program: Program) -> None:
        program.emit(keep_trace, cut=self.cut, decay=self.decay, keep=self.keep)
        super().begin_gradient(program)

    def end_gradient(self, program: Program) -> None:
        super().end_gradient(program)
        sizes = self.frame.sizes
        for name, block in (("encoder", self.gradient.encoder), ("head", self.gradient.head)):
            program.emit(
                trace_size, z=self.traces[name].offset, g=block.offset, size=block.size, keep=self.keep, out=self.size
            )
        program.emit(
            outer_trace_size, z=self.traces["projection"].offset, x=self.acting.x, d=self.acting.d,
            inputs=sizes.latent + 1, outputs=sizes.hidden, keep=self.keep, out=self.size,
        )  # fmt: skip

    def _choose_terms(self, program: Program) -> None:
        program.emit(
            stream_q_terms, lr=self.lr, kappa=self.kappa, delta=self.delta, size=self.size, terms=self.terms,
            step_size=self.step_size,
        )  # fmt: skip

    def forget(self, program: Program) -> None:
        self._cut(program)

    def account(self, program: Program, values: dict[str, int]) -> None:
        super().account(program, values)
        program.emit(copy, source=self.step_size, out=values["step_size"], size=1)
