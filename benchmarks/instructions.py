"""Where a step of the fast engine goes: every instruction of it timed, those of one kind and size added up.

python benchmarks/instructions.py [--suite atari] [--variant qrc+spr+orth] [--steps 60] [--least 0.5]

The list of a step is carried out one instruction at a time, on played-back observations, each timed from Python; what
a call costs that does nothing is taken off. A figure is the median over the steps. Instructions that take less than so
many percent of the step are added up at the end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from headrace.agents import agent_named
from headrace.bench.playback import SPECS, HostPlayback
from headrace.engines.fast.engine import FastEngine
from headrace.engines.fast.machine import INSTRUCTIONS, SKIP, carry_out
from headrace.engines.fast.memory import parameters
from headrace.envs.base import TimeStep

NOTHING = np.zeros(0, np.int64)
CALLS = 1000  # that do nothing, to know what one costs


class Stepper:
    """An engine whose steps are taken instruction by instruction."""

    def __init__(self, suite: str, variant: str) -> None:
        spec = SPECS[suite]
        self.engine, self.env = FastEngine(agent_named(variant), spec, seed=0, steps=1_000_000), HostPlayback(spec)
        self.engine.begin(self.env.reset(0))
        self.rows, self.memory = self.engine._work.rows, (self.engine._f, self.engine._s, self.engine._n)
        self._alone = [self.rows[i : i + 1].copy() for i in range(len(self.rows))]
        self._call = statistics.median(self._timed(self.rows[:0]) for _ in range(CALLS))

    def step(self) -> dict[int, float]:
        """Microseconds of every instruction that was carried out."""
        self._take(self.env.step(self.engine.action))
        found, at, wholes = {}, 0, self.memory[2]
        while at < len(self.rows):
            code, flag, count = self.rows[at, :3].tolist()
            if code == SKIP:
                at += 0 if wholes[flag] else count
            else:
                found[at] = (self._timed(self._alone[at]) - self._call) / 1000
            at += 1
        return found

    def _take(self, timestep: TimeStep) -> None:
        """As the engine does before it carries out a step."""
        engine, (f, _, n) = self.engine, self.memory
        engine._successor[...], engine._first_obs[...] = timestep.successor, timestep.obs
        f[engine._plan.raw_reward] = timestep.reward
        n[list(engine._flags)] = timestep.terminated, timestep.truncated, timestep.last

    def _timed(self, rows: np.ndarray) -> int:
        began = time.perf_counter_ns()
        carry_out(rows, *self.memory, NOTHING)
        return time.perf_counter_ns() - began


def described(row: Sequence[int]) -> tuple[str, float]:
    """What an instruction is, and how many operations of matrix products are in it."""
    instruction = INSTRUCTIONS[row[0] - 1]
    name, at = instruction.__name__, dict(zip(parameters(instruction), row[1:], strict=False))
    if name in ("convolve", "convolve_back", "convolve_gradient"):
        inner = at["count"] * at["length"]
        return f"{name} {at['places']} x {inner} x {at['outputs']}", 2.0 * at["places"] * inner * at["outputs"]
    if name in ("dense", "dense_back", "dense_both_ways"):
        count = at["count"] + (1 if name == "dense_both_ways" else 0)
        return f"{name} {count} x {at['inputs']} x {at['outputs']}", 2.0 * count * at["inputs"] * at["outputs"]
    sizes = [at[size] for size in ("inputs", "outputs", "size") if size in at]
    return " ".join([name, " x ".join(map(str, sizes))]).strip(), 0.0


def table(stepper: Stepper, steps: int, least: float) -> list[str]:
    times = defaultdict(list)
    for _ in range(steps):
        for at, taken in stepper.step().items():
            times[at].append(taken)
    often = {at: statistics.median(some) for at, some in times.items() if len(some) > steps / 2}
    whole, kinds = sum(often.values()), defaultdict(lambda: [0, 0.0, 0.0])
    for at, taken in often.items():
        name, operations = described(stepper.rows[at].tolist())
        for i, value in enumerate((1, taken, operations)):
            kinds[name][i] += value
    kept = {name: kind for name, kind in kinds.items() if kind[1] >= least / 100 * whole}
    rest = whole - sum(taken for _, taken, _ in kept.values())
    lines = [
        f"| `{name}` | {count} | {taken:,.0f} | {taken / whole:.1%} | {f'{made / taken / 1e3:.0f}' if made else ''} |"
        for name, (count, taken, made) in sorted(kept.items(), key=lambda item: -item[1][1])
    ]
    return [*lines, f"| all else | | {rest:,.0f} | {rest / whole:.1%} | |", f"| a step | | {whole:,.0f} | | |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="atari", choices=list(SPECS))
    parser.add_argument("--variant", default="qrc+spr+orth")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--least", type=float, default=0.5, help="percent of a step")
    words = parser.parse_args()
    head = ("instruction", "times", "microseconds", "share", "GFLOP/s")
    stepper = Stepper(words.suite, words.variant)
    print(f"| {' | '.join(head)} |", "|---" * len(head) + "|", sep="\n")
    print(*table(stepper, words.steps, words.least), sep="\n")


if __name__ == "__main__":
    main()
