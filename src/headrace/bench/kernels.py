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


class Loop(NamedTuple):
    """The largest loop of a compiled program."""

    operations: dict[str, int]  # that can start a kernel, in one pass, by kind, the most frequent first
    passes: int | None  # where the compiler knows


def count_kernels(fleet: Any, steps: int, loop: Loop) -> Kernels:
    """Counted while the fleet takes so many steps, by the profiler.

    Where it sees less than a kernel a step, the device runs the whole loop as one graph: then by the loop's operations.
    """
    if jax.default_backend() == "cpu":
        return Kernels(None, None, "not counted on a CPU")
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            fleet.run(steps).episodes()  # waits for the device
        found = list(_device_events(Path(folder)))
    copies = sum(name.lower().startswith(("memcpy", "memset")) for name in found)
    if len(found) - copies < steps:
        return _in_the_loop(steps, loop)
    return Kernels((len(found) - copies) / steps, copies / steps, "by the profiler")


def _in_the_loop(steps: int, loop: Loop) -> Kernels:
    """A pass of a loop that the compiler has unrolled is several steps."""
    per_pass = steps / loop.passes if loop.passes else 1.0
    copies = loop.operations.get("copy", 0)
    kernels = sum(loop.operations.values()) - copies
    return Kernels(kernels / per_pass, copies / per_pass, "in the compiled loop, which the device runs as one graph")


def _device_events(folder: Path) -> Iterator[str]:
    """The name of everything that ran on a stream of the first device."""
    for file in sorted(folder.rglob("*.xplane.pb")):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if re.search(r"/device:\w+:0$", plane.name):
                for line in plane.lines:
                    if line.name.startswith("Stream"):
                        yield from (event.name for event in line.events)


def compiled_loop(text: str) -> Loop:
    """From the text of an optimised program."""
    loops = {name: line for line in re.findall(r"^.* while\(.*$", text, re.MULTILINE) for name in _bodies(line)}
    computations = {name: body for name, body in _computations(text) if name in loops}
    if not computations:
        return Loop({}, None)
    largest = max(computations, key=lambda name: len(computations[name]))
    kinds = Counter(re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(", computations[largest], re.MULTILINE))
    passes = re.search(r"known_trip_count\W+n\W+(\d+)", loops[largest])
    operations = {kind: n for kind, n in kinds.most_common() if kind not in NO_KERNEL}
    return Loop(operations, int(passes[1]) if passes else None)


def _bodies(line: str) -> list[str]:
    return re.findall(r"body=%?([\w.-]+)", line)


def _computations(text: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"\n(?=(?:ENTRY )?%?[\w.-]+ \()", text):
        if found := re.match(r"(?:ENTRY )?%?([\w.-]+) \(", block):
            yield found[1], block


def program_text(fleet: Any, steps: int) -> str:
    """The fleet's program as the compiler left it."""
    program, arguments = fleet.program(steps)
    return program.lower(*arguments).compile().as_text()
