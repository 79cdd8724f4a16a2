"""Target networks: the present parameters, a copy, or their average."""

from __future__ import annotations

import numpy as np

from headrace.agents import Copy, Online, Polyak
from headrace.engines.fast.frame import Frame
from headrace.engines.fast.kernels.rules import polyak, renew_copy
from headrace.engines.fast.memory import Block, Program


class Target:
    """The blocks that a bootstrap or a prediction's truth reads in place of some modules."""

    def __init__(self, frame: Frame, rule: Online | Copy | Polyak, modules: tuple[str, ...], name: str) -> None:
        self._frame, self._rule = frame, rule
        self.present = {module: frame.params[module] for module in modules}
        self.is_online = isinstance(rule, Online)
        self.blocks: dict[str, Block] = (
            self.present if self.is_online else {m: frame.block(m, f"{name}/{m}") for m in modules}
        )
        memory = frame.memory
        self._every = memory.whole(rule.every if isinstance(rule, Copy) else 0)
        self._keep = memory.real(rule.keep if isinstance(rule, Polyak) else 0.0)

    def start(self, f: np.ndarray) -> None:
        """A target of its own starts as a copy."""
        for module, block in self.blocks.items():
            source = self.present[module]
            f[block.offset : block.offset + block.size] = f[source.offset : source.offset + source.size]

    def follow(self, program: Program) -> None:
        """After the parameters have moved and the step was counted."""
        for module, block in self.blocks.items():
            source = self.present[module].offset
            if isinstance(self._rule, Polyak):
                program.emit(polyak, target=block.offset, source=source, size=block.size, keep=self._keep)
            elif isinstance(self._rule, Copy):
                program.emit(
                    renew_copy, target=block.offset, source=source, size=block.size, every=self._every,
                    step=self._frame.step,
                )  # fmt: skip
