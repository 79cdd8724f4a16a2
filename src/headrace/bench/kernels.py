"""How many kernels an accelerator starts for one step of a fleet, and which operations the compiler left for it."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

NO_KERNEL = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id"}


class Kernels(NamedTuple):
    per_step: float | None  # None where nothing was counted
    copies_per_step: float | None  # transfers and fills of memory, beside the kernels
    source: str


def count_kernels(fleet: Any, steps: int, operations: dict[str, int]) -> Kernels:
    """Counted while the fleet takes so many steps, by the profiler; where it sees nothing, the loop's operations."""
    if jax.default_backend() == "cpu":
        return Kernels(None, None, "not counted, because this is a CPU")
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            fleet.run(steps).episodes()  # waits for the device
        found = list(_device_events(Path(folder)))
    if not found:
        copies = operations.get("copy", 0)
        return Kernels(sum(operations.values()) - copies, copies, "in the compiled loop, the profiler saw nothing")
    copies = sum(name.lower().startswith(("memcpy", "memset")) for name in found)
    return Kernels((len(found) - copies) / steps, copies / steps, "by the profiler")


def _device_events(folder: Path) -> Iterator[str]:
    """The name of everything that ran on a stream of the first device."""
    for file in sorted(folder.rglob("*.xplane.pb")):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if re.search(r"/device:\w+:0$", plane.name):
                for line in plane.lines:
                    if line.name.startswith("Stream"):
                        yield from (event.name for event in line.events)


def compiled_operations(text: str) -> dict[str, int]:
    """Operations in the largest loop of an optimised program that can start a kernel, by kind, the most frequent first.

    A compiler that unrolls the loop leaves those of several steps there.
    """
    bodies = re.findall(r"body=%?([\w.-]+)", text)
    computations = {name: body for name, body in _computations(text) if name in bodies}
    largest = max(computations.values(), key=len, default="")
    kinds = Counter(re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(", largest, re.MULTILINE))
    return {kind: n for kind, n in kinds.most_common() if kind not in NO_KERNEL}


def _computations(text: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"\n(?=(?:ENTRY )?%?[\w.-]+ \()", text):
        if found := re.match(r"(?:ENTRY )?%?([\w.-]+) \(", block):
            yield found[1], block


def program_text(fleet: Any, steps: int) -> str:
    """The fleet's program as the compiler left it."""
    program, arguments = fleet.program(steps)
    return program.lower(*arguments).compile().as_text()
