"""What a fleet does and when, for one step of its loop: each kernel's begin and end, as they run side by side.

    python benchmarks/timeline.py [--streams 255] [--variant qrc+spr+orth] [--least 5]

The profiler has kernels follow each other unless it is told not to, and sees nothing inside a loop that runs as one
graph. So this program is the fleet's but for one thing: a graph is one pass of the loop, not all of it, which costs a
few percent. `room` is what a kernel takes of a multiprocessor: registers of a thread, shared bytes, blocks, threads of
a block. Kernels that take less than `--least` microseconds are not shown. Needs JAX, NumPy and an accelerator.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from headrace.agents import agent_named
from headrace.bench.playback import shared_out
from headrace.engines.jax.fleet import _CARD, Fleet
from headrace.envs.registry import environment, names

STEPS, BLOCKS = 100, 3  # of a block; blocks that are watched
GRAPHS = "xla_gpu_enable_command_buffer"
COPY_OF_THE_LOOP = "_double_buffer_clone"  # the compiler lays two steps of the loop out as one


class Event(NamedTuple):
    begin: float  # microseconds
    took: float
    name: str
    room: str

    @property
    def end(self) -> float:
        return self.begin + self.took


def make_fleet(variant: str, streams: int) -> Fleet:
    games = shared_out([name for name in names() if name.startswith("minatar/")], streams)
    agents, envs = [agent_named(variant)] * streams, [environment(game).compiled() for game in games]
    return Fleet(agents, envs, list(range(streams)), 1_000_000)


def watched(fleet: Fleet) -> list[Event]:
    """Everything that the accelerator did in some blocks of steps."""
    options = {**_CARD, GRAPHS: _CARD[GRAPHS].removesuffix(",WHILE")}
    block = jax.jit(
        lambda *state: fleet._advance_all(*state, STEPS)[:2], donate_argnums=(1, 2), compiler_options=options
    )
    fleet.begin()
    state = block(fleet.settings, *fleet._begun())
    jax.block_until_ready(state)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(BLOCKS):
                state = jax.block_until_ready(block(fleet.settings, *state))
        return sorted(events_in(Path(folder)))


def events_in(folder: Path) -> Iterator[Event]:
    for file in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if re.search(r"/device:\w+:0$", plane.name):
                for line in (line for line in plane.lines if line.name.startswith("Stream")):
                    for event in line.events:
                        name = event.name.replace(COPY_OF_THE_LOOP, "")
                        yield Event(event.start_ns / 1e3, event.duration_ns / 1e3, name, _room(dict(event.stats)))


def _room(stats: dict[str, Any]) -> str:
    found = dict(re.findall(r"(\w+):([\d.,]+)", str(stats.get("kernel_details", ""))))
    return f"{found.get('regs', '')} {found.get('dynamic_shared', '')} {found.get('grid', '')} {found.get('block', '')}"


def one_step(events: list[Event], steps: int) -> list[Event]:
    """From one beginning of the longest kernel that every step has to the next, in the middle of all."""
    often = Counter(event.name for event in events)
    once = [event for event in events if often[event.name] == steps]
    if not once:
        return []
    mark = max(once, key=lambda event: event.took).name
    begins = [event.begin for event in once if event.name == mark]
    first, last = begins[len(begins) // 2 - 1], begins[len(begins) // 2]
    return [event._replace(begin=event.begin - first) for event in events if first <= event.begin < last]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=255)
    parser.add_argument("--variant", default="qrc+spr+orth")
    parser.add_argument("--least", type=float, default=5.0, help="microseconds")
    words = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_enable_command_buffers_during_profiling=true"
    if jax.default_backend() == "cpu":
        sys.exit("timeline.py watches an accelerator, and JAX finds none here: it needs jax[cuda12] and a card")
    fleet = make_fleet(words.variant, words.streams)
    step = one_step(watched(fleet), STEPS * BLOCKS)
    print("| from | to | microseconds | kernel | room |", "|---|---|---|---|---|", sep="\n")
    for event in step:
        if event.took >= words.least:
            print(f"| {event.begin:.0f} | {event.end:.0f} | {event.took:.0f} | `{event.name}` | {event.room} |")
    alone = sum(event.took for event in step)
    print(f"\n{len(step)} kernels, {alone:,.0f} microseconds if they followed each other")


if __name__ == "__main__":
    main()
