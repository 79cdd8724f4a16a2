"""How far both engines are apart after many steps, each going on from its own state.

What is the algorithm's own sensitivity is measured beside it: the reference engine against itself, begun with weights
that are off by a rounding. `python -m tests.engines.fast.free` makes the table of docs/parity.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.agents import Agent
from headrace.envs.base import EnvSpec
from tests.engines.fast.rows import print_rows, words_for
from tests.engines.fast.support import Reference, engines, experience, relative_error

Arrays = dict[str, np.ndarray]
FREE_TOLERANCE = 1e-3


@dataclass
class Apart:
    """The largest error of any weight matrix after these steps."""

    steps: int
    fast: float  # of the fast engine, against the reference engine
    array: str  # the matrix that it was found in
    itself: list[float]  # of each reference engine that began beside


def run_free(
    agent: Agent, spec: EnvSpec, steps: int, shaken: int = 0, roundings: int = 1, looks: int = 10
) -> list[Apart]:
    """Both engines, and so many that begin some roundings beside, on the same experience, compared on the way."""
    reference, fast = engines(agent, spec)
    beside = [Reference(agent, spec) for _ in range(shaken)]
    first, answers = experience(spec.frame_shape, steps)
    for engine in (reference, fast, *beside):
        engine.begin(first)
    for seed, engine in enumerate(beside):
        engine.restore(beside_by(roundings, engine.save(), np.random.default_rng(seed)))
    found = []
    for t, timestep in enumerate(answers, 1):
        for engine in (reference, fast, *beside):
            engine.learn(timestep)
        if t % max(steps // looks, 1) == 0:
            wanted = reference.save()
            array, worst = largest_error(fast.save(), wanted)
            itself = [largest_error(engine.save(), wanted)[1] for engine in beside]
            found.append(Apart(t, worst, array, itself))
    return found


def beside_by(roundings: int, arrays: Arrays, random: np.random.Generator) -> Arrays:
    eps = roundings * np.finfo(np.float32).eps
    return {
        name: (array * (1 + eps * random.uniform(-1, 1, array.shape))).astype(np.float32) if is_weight(name) else array
        for name, array in arrays.items()
    }


def is_weight(name: str) -> bool:
    return name.startswith("stream/agent/params/") and name.endswith("/w")


def largest_error(got: Arrays, wanted: Arrays) -> tuple[str, float]:
    errors = {name: relative_error(got[name], wanted[name]) for name in wanted if is_weight(name)}
    worst = max(errors, key=lambda name: errors[name])
    return worst.removeprefix("stream/agent/params/"), errors[worst]


def main() -> None:
    words = words_for(__doc__)
    words.add_argument("--steps", type=int, default=1000)
    words.add_argument("--shaken", type=int, default=1, help="how many reference engines begin beside")
    words.add_argument("--roundings", type=int, default=1, help="by how much")
    said = words.parse_args()

    def cells(suite: str, agent: Agent, spec: EnvSpec) -> list[str]:
        found = run_free(agent, spec, said.steps, said.shaken, said.roundings)
        last, beyond = found[-1], [look.steps for look in found if look.fast > FREE_TOLERANCE]
        itself = ", ".join(f"{error:.1e}" for error in last.itself)
        return [str(last.steps), f"{last.fast:.1e}", f"`{last.array}`", itself, str(min(beyond)) if beyond else ""]

    print_rows(said, ("steps", "fast to reference", "in", "reference to itself", "beyond 1e-3 from step"), cells)


if __name__ == "__main__":
    main()
