"""How far the fast engine is from the reference engine after a step from the same state; which is nearer the truth.

The error of an array is ||fast - reference|| / ||reference|| in the Euclidean norm, array by array (each weight matrix
and each bias is one); a running statistic, which is kept as a number and what rounding took from it, is compared as
their sum. A single number, such as QRC's trace of h, passes through zero, where nothing is small beside it: its error
is relative to the largest that it has been. `python -m tests.engines.fast.parity` makes the table of docs/parity.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.agents import VARIANTS, Agent, BySuite, agent_named
from headrace.envs.base import EnvSpec
from tests.engines.fast.support import SUITES, engines, errors_of, experience, on, relative_error, spec_of
from tests.engines.fast.truth import true_state

STEP_TOLERANCE = 1e-5
METRICS = "stream/tally/"  # cosines near 0, losses that cancel: compared as numbers of about the size of one


@dataclass
class Found:
    """The worst of many steps."""

    worst: float = 0.0
    array: str = ""
    fast: float = 0.0  # the largest distances from double precision, where that was looked at
    reference: float = 0.0
    beyond: list[tuple[str, float, float]] = field(default_factory=list)  # array, both distances from the truth
    largest: dict[str, float] = field(default_factory=dict)  # that each single number has been

    def error(self, name: str, got: np.ndarray, wanted: np.ndarray) -> float:
        """The relative error; of a single number, relative to the largest that it has been."""
        error = relative_error(got, wanted)
        if wanted.ndim:
            return error
        size = abs(float(wanted))
        return error * (size or 1.0) / (max(size, self.largest.get(name, 0.0)) or 1.0)


def compare_steps(agent: Agent, spec: EnvSpec, steps: int, look_every: int = 0) -> Found:
    """Runs both side by side, the fast engine put into the reference's state before every step.

    Double precision is looked at every so many steps, and wherever the engines differ by more than the tolerance: then
    the fast engine has to be within it of the truth, and nearer than the reference.
    """
    reference, fast = engines(agent, spec)
    first, answers = experience(spec.frame_shape, steps)
    reference.begin(first)
    fast.begin(first)
    found = Found()
    _note(found, fast.save(), reference.save(), "the beginning")
    for t, timestep in enumerate(answers):
        before = reference.state
        fast.restore(reference.save())
        reference.learn(timestep)
        fast.learn(timestep)
        got, wanted = fast.save(), reference.save()
        strange = _note(found, got, wanted, f"step {t}")
        if strange or (look_every and t % look_every == 0):
            reference.state, after = before, reference.state
            _judge(found, strange, got, wanted, true_state(reference, agent, timestep), t)
            reference.state = after
    return found


def _note(found: Found, got: dict[str, np.ndarray], wanted: dict[str, np.ndarray], when: str) -> list[str]:
    """Arrays that differ by more than the tolerance."""
    state = {name: array for name, array in wanted.items() if not name.startswith(METRICS)}
    for name, array in state.items():
        if array.dtype == np.float32 and not array.ndim:
            found.largest[name] = max(abs(float(array)), found.largest.get(name, 0.0))
    errors = errors_of({name: got[name] for name in state}, state, found.error)
    name = max(errors, key=lambda name: errors[name])
    if errors[name] > found.worst:
        found.worst, found.array = errors[name], name
    for name in wanted.keys() - state.keys():
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-3, atol=1e-4, err_msg=f"{name} at {when}")
    return [name for name, error in errors.items() if error > STEP_TOLERANCE]


def _judge(found: Found, strange: list[str], got: Any, wanted: Any, truth: dict[str, np.ndarray], t: int) -> None:
    real = {name: array for name, array in truth.items() if array.dtype == np.float64 and array.any()}
    for name, exact in real.items():
        fast, reference = (found.error(name, arrays[name].astype(np.float64), exact) for arrays in (got, wanted))
        found.fast, found.reference = max(found.fast, fast), max(found.reference, reference)
        if name in strange:
            found.beyond.append((name, fast, reference))
            assert fast <= STEP_TOLERANCE, f"{name} is {fast:.1e} from the truth at step {t}"
            assert fast <= reference, f"{name} is {fast:.1e} from the truth at step {t}, the reference {reference:.1e}"
    left = set(strange) - set(real)
    assert not left, f"{sorted(left)} differ at step {t}"


def table(suites: list[str], variants: list[str], small: int, large: int) -> None:
    """Prints a line for each variant on each suite as it is done."""
    print("| suite | variant | steps | largest error, fast to reference | in | fast to truth | reference to truth |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for suite in suites:
        steps = small if suite in ("minatar", "vector") else large
        for variant in variants:
            began = time.perf_counter()
            found = compare_steps(on(agent_named(variant), BySuite()), spec_of(SUITES[suite]), steps, look_every=10)
            array = found.array.removeprefix("stream/").removeprefix("agent/")
            beyond = f" ({len(found.beyond)} beyond 1e-5)" if found.beyond else ""
            print(
                f"| {suite} | {variant} | {steps} | {found.worst:.1e}{beyond} | `{array}` | {found.fast:.1e} | "
                f"{found.reference:.1e} |", flush=True,
            )  # fmt: skip
            print(f"{suite} {variant}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES))
    words.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    words.add_argument("--steps", type=int, default=300, help="on MinAtar's shape and on vectors")
    words.add_argument("--large-steps", type=int, default=40, help="on Octax's and Atari's shapes")
    said = words.parse_args()
    table(said.suites, said.variants, said.steps, said.large_steps)
