"""Many streams in one program: how long a step of all takes, environments and metrics included, and its kernels."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from headrace.agents import agent_named
from headrace.bench.cost import Cost, cost_of, operand_bytes
from headrace.bench.playback import STEPS, device, shared_out
from headrace.engines.jax.fleet import Block, Fleet
from headrace.envs.registry import FAMILIES, environment
from headrace.errors import BadSetting, unknown

BLOCK = {"cpu": 20}  # steps between two looks of the host, where they are not those of training
TRAINING_BLOCK = 1000
COPIED = {"cpu": 2**24}  # floats of the copied array, where they are not:
LARGE = 2**28
COPIES = 10  # that are waited for together
FEWEST_BLOCKS, MOST_BLOCKS = 4, 50
NO_KERNEL = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id"}
BODIES = re.compile(r"body=%?([\w.-]+)")


def measure_fleet(suite: str, game: str | None, variant: str, streams: int, seconds: float) -> dict[str, Any]:
    """The figures of a fleet; where its environments run on the host, those of `measure_host_fleet`."""
    if suite not in FAMILIES:
        raise unknown("suite", suite, FAMILIES)
    if "compiled" not in FAMILIES[suite].forms:
        from headrace.bench.host_fleet import measure_host_fleet

        return measure_host_fleet(suite, game, variant, streams, seconds)
    games = _games(suite, game)
    if streams < len(games):
        raise BadSetting(f"{len(games)} games need as many streams at least, got {streams}: --game names one of them")
    envs = [environment(name).compiled() for name in shared_out(games, streams)]
    agent = agent_named(variant)
    costs = [cost_of(agent, env.spec.observation_shape, env.spec.n_actions, env.spec.box) for env in envs]
    fleet = Fleet([agent] * streams, envs, list(range(streams)), STEPS)
    result = {"on": "fleet", "suite": suite, "games": games, "variant": variant, "streams": streams}
    return {**result, "device": device(), **_measured(fleet, costs, seconds)}


def _games(suite: str, game: str | None) -> list[str]:
    """The game that was named, or all of the suite."""
    wanted = FAMILIES[suite].members if game is None else [game]
    return [environment(f"{suite}/{member}").name for member in wanted]


def _measured(fleet: Fleet, costs: Sequence[Cost], seconds: float) -> dict[str, Any]:
    block = BLOCK.get(jax.default_backend(), TRAINING_BLOCK)
    began = time.perf_counter()
    fleet.begin()
    jax.block_until_ready(fleet.program(block)[1])
    begin_s = time.perf_counter() - began
    first = _read(fleet.run(block)) - began - begin_s
    times = _repeated(fleet, block, seconds)
    step_s = statistics.median(times) / block
    loop = compiled_loop(program_text(fleet, block))
    kernels, copies = loop.per_step(block) if jax.default_backend() != "cpu" else (None, None)
    state = sum(cost.state_bytes for cost in costs)
    moved = state + sum(product.times * operand_bytes(product) for cost in costs for product in cost.products)
    copy = copy_bandwidth(COPIED.get(jax.default_backend(), LARGE))
    return {
        "microseconds_per_step": step_s * 1e6,
        "stream_steps_per_s": len(costs) / step_s,
        "spread_microseconds": [min(times) / block * 1e6, max(times) / block * 1e6],
        "block": block,
        "blocks": len(times) + 1,
        "kernels_per_step": kernels,
        "copies_per_step": copies,
        "loop_operations": loop.operations,
        "loop_passes": loop.passes,
        "gflops": sum(cost.operations for cost in costs) / step_s / 1e9,
        "state_mb_per_step": state / 1e6,
        "moved_mb_per_step": moved / 1e6,
        "gbytes_per_s": state / step_s / 1e9,
        "copy_gbytes_per_s": copy / 1e9,
        "bandwidth_fraction": state / step_s / copy,
        "begin_s": begin_s,
        "compile_s": first - statistics.median(times),
    }


def _repeated(fleet: Fleet, steps: int, seconds: float) -> list[float]:
    """Seconds of a block, each being read while the next runs, as in training: half of what two neighbours take.

    How soon a block is read hangs on what the next one has begun: single blocks of 50 streams seemed to take 94 to 544
    microseconds a step. What is late in one is early in the next, so two of them together tell how fast they run.
    """
    began = time.perf_counter()
    with ThreadPoolExecutor(1) as beside:
        read, ends = beside.submit(_read, fleet.run(steps)), [began]
        while len(ends) <= FEWEST_BLOCKS or (ends[-1] - began < seconds and len(ends) <= MOST_BLOCKS):
            block = fleet.run(steps)
            ends.append(read.result())
            read = beside.submit(_read, block)
    return [(end - before) / 2 for before, end in zip(ends, ends[2:], strict=False)]


def _read(block: Block) -> float:
    """When all was known that training asks for after a block: episodes, metrics, whether all is finite."""
    block.episodes(), block.means(), block.trouble()
    return time.perf_counter()


def copy_bandwidth(floats: int) -> float:
    """Bytes per second that the device reads and writes when it copies a large array, at its best.

    Several copies are waited for together: the waiting is the host's time, not the device's.
    """
    x = jnp.ones(floats, jnp.float32)
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = step(x).block_until_ready()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(COPIES):
            x = step(x)
        x.block_until_ready()
        times.append((time.perf_counter() - began) / COPIES)
    return 2 * 4 * floats / min(times)


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
    """From the text of an optimised program: a profiler sees the start of the loop alone, which an accelerator runs as
    one graph."""
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
