"""How many kernels one step of a fleet starts, counted in the compiled program.

An accelerator runs the whole loop as one graph, of which a profiler sees the start alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

NO_KERNEL = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id"}


BODIES = re.compile(r"body=%?([\w.-]+)")


class Loop(NamedTuple):
    """The largest loop of a compiled program."""

    operations: dict[str, int]  # that start a kernel or a copy, in one pass, by kind, the most frequent first
    passes: int | None  # where the compiler knows

    def per_step(self, steps: int) -> tuple[float, float]:
        """Kernels and copies of a step. One pass of a loop that the compiler has unrolled is several steps."""
        steps_per_pass = steps / self.passes if self.passes else 1.0
        copies = self.operations.get("copy", 0)
        return (sum(self.operations.values()) - copies) / steps_per_pass, copies / steps_per_pass


def compiled_loop(text: str) -> Loop:
    """From the text of an optimised program."""
    loops = {name: line for line in re.findall(r"^.* while\(.*$", text, re.MULTILINE) for name in BODIES.findall(line)}
    computations = {name: body for name, body in _computations(text) if name in loops}
    if not computations:
        return Loop({}, None)
    largest = max(computations, key=lambda name: len(computations[name]))
    kinds = Counter(re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(", computations[largest], re.MULTILINE))
    passes = re.search(r"known_trip_count\W+n\W+(\d+)", loops[largest])
    operations = {kind: n for kind, n in kinds.most_common() if kind not in NO_KERNEL}
    return Loop(operations, int(passes[1]) if passes else None)


def _computations(text: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"\n(?=(?:ENTRY )?%?[\w.-]+ \()", text):
        if found := re.match(r"(?:ENTRY )?%?([\w.-]+) \(", block):
            yield found[1], block


def program_text(fleet: Any, steps: int) -> str:
    """The fleet's program as the compiler left it."""
    program, arguments = fleet.program(steps)
    return program.lower(*arguments).compile().as_text()
