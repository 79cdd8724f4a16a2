"""The guard as instructions: a gradient's length is bounded before anything else sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.agents import Clip, Unguarded
from headrace.engines.fast.kernels.flat import guard, shorten, squared_norm
from headrace.engines.fast.kernels.outers import outer_squared_norm
from headrace.engines.fast.memory import Block, Memory, Program


class Products(NamedTuple):
    """The gradient of a dense layer: the sum of `terms` outer products x d^T."""

    x: int
    d: int
    inputs: int  # with the one that the bias takes
    outputs: int
    terms: int = 1


class Guard:
    """One gradient's guard. `square` is the gradient's squared norm, `kept` that of what the guard leaves of it;
    several may note in the same `acted` that they had to shorten theirs."""

    def __init__(
        self, rule: Clip | Unguarded, memory: Memory, acted: int, blocks: Sequence[Block], products: Sequence[Products]
    ) -> None:
        self._blocks, self._products, self._acted = blocks, products, acted
        self.square = self.kept = memory.sum()
        self._acts = isinstance(rule, Clip)
        if isinstance(rule, Clip):
            self.kept, self._longest, self._factor = memory.sum(), memory.real(rule.norm), memory.real(1.0)

    def measure(self, program: Program) -> None:
        for block in self._blocks:
            program.emit(squared_norm, a=block.offset, size=block.size, out=self.square)
        for x, d, inputs, outputs, terms in self._products:
            program.emit(outer_squared_norm, x=x, d=d, count=terms, inputs=inputs, outputs=outputs, out=self.square)

    def bound(self, program: Program) -> None:
        """Shortens a gradient that was measured."""
        if not self._acts:
            return
        program.emit(
            guard, square=self.square, longest=self._longest, kept=self.kept, acted=self._acted, factor=self._factor
        )
        for block in self._blocks:
            program.emit(shorten, a=block.offset, size=block.size, factor=self._factor)
        for products in self._products:
            program.emit(shorten, a=products.d, size=products.terms * products.outputs, factor=self._factor)

    def measure_and_bound(self, program: Program) -> None:
        """Both, where there is anything to do."""
        if self._acts:
            self.measure(program)
            self.bound(program)
