"""How far the learner is from the reference engine after a step from the same state; which is nearer the truth.

The error of an array is ||fast - reference|| / ||reference|| in the Euclidean norm, array by array (each weight matrix
and each bias is one); a running statistic, which is kept as a number and what rounding took from it, is compared as
their sum. A single number, such as QRC's trace of h or the bias of V, passes through zero, where nothing is small
beside it: its error is relative to the largest that it has been. `python -m tests.engines.learner.parity` makes the
table of docs/parity.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.agents import Agent
from headrace.engines.learner.engine import LearnerEngine
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import counted
from tests.engines.learner.rows import BOX, print_rows, words_for
from tests.engines.learner.support import engines, errors_of, experience, relative_error
from tests.engines.learner.truth import true_state

STEP_TOLERANCE = 1e-5
NOTHING = 1e-6  # what rounding leaves of 0
SHAKES = 40  # how often at most a step is repeated with its last digits shaken, to see whether it stands on an edge
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
    edges: int = 0  # steps that no engine in single precision can be sure of

    def note(self, errors: dict[str, float]) -> None:
        for name, error in errors.items():
            if error > self.worst:
                self.worst, self.array = error, name

    def compared(self, strange: list[str], distances: dict[str, tuple[float, float]]) -> None:
        """Both engines' distances from the truth at a step at which these arrays differed by more than they may."""
        self.fast = max([self.fast, *(fast for fast, _ in distances.values())])
        self.reference = max([self.reference, *(reference for _, reference in distances.values())])
        self.beyond += [(name, *distances[name]) for name in strange if name in distances]

    def errors(self, got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> dict[str, float]:
        """Of every array of the state."""
        state = {name: array for name, array in wanted.items() if not name.startswith(METRICS)}
        for name, array in state.items():
            if array.dtype == np.float32 and array.size == 1:
                self.largest[name] = max(abs(array.item()), self.largest.get(name, 0.0))
        return errors_of({name: got[name] for name in state}, state, self.error)

    def error(self, name: str, got: np.ndarray, wanted: np.ndarray) -> float:
        """The relative error; of a single number, relative to the largest that it has been."""
        error = relative_error(got, wanted)
        if wanted.size > 1:
            return error
        size = abs(wanted.item())
        return error * (size or 1.0) / (max(size, self.largest.get(name, 0.0)) or 1.0)


def compare_steps(agent: Agent, spec: EnvSpec, steps: int, *more: Any, **named: Any) -> Found:
    """Both engines on experience that has everything in it: `compare_answers`."""
    return compare_answers(agent, spec, *experience(spec.frame_shape, steps), *more, **named)


def compare_answers(
    agent: Agent,
    spec: EnvSpec,
    first: np.ndarray,
    answers: Sequence[TimeStep],
    look_every: int = 0,
    along_fast: bool = False,
    learner: Any = LearnerEngine,
) -> Found:
    """Runs both side by side, one put into the state of the other before every step: the learner into the
    reference's, or the other way round.

    Double precision is looked at every so many steps, and wherever the engines differ by more than the tolerance: then
    the learner has to be within it of the truth, and nearer than the reference. Excused is a step on an edge: an
    input of LeakyReLU so near zero that the last digit of a weight decides its sign, and with it a slope of 1 or 0.01.
    """
    reference, fast = engines(agent, spec, learner=learner)
    reference.begin(first)
    fast.begin(first)
    found = Found()
    assert not _strange(found.errors(fast.save(), reference.save()))
    for t, timestep in enumerate(answers):
        if along_fast:
            reference.restore(fast.save())
        else:
            fast.restore(reference.save())
        before = reference.state
        reference.learn(timestep)
        fast.learn(timestep)
        got, wanted = fast.save(), reference.save()
        errors = found.errors(got, wanted)
        strange = _strange(errors) + other_metrics(got, wanted)
        blame = ""
        if strange or (look_every and t % look_every == 0):
            reference.state, after = before, reference.state
            truth = true_state(reference, agent, timestep)
            blame = _judged(found, strange, got, wanted, truth)
            assert not blame or _on_an_edge(truth, reference, agent, timestep), f"step {t}: {blame}"
            reference.state = after
        if blame:
            found.edges += 1
        else:
            found.note(errors)
    assert found.edges <= max(1, len(answers) / 100), f"{found.edges} steps on an edge are too many to be chance"
    return found


def _strange(errors: dict[str, float]) -> list[str]:
    return [name for name, error in errors.items() if error > STEP_TOLERANCE]


def other_metrics(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> list[str]:
    return [name for name in wanted if name.startswith(METRICS) and not _alike(got[name], wanted[name])]


def _alike(got: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(np.allclose(got, wanted, rtol=1e-3, atol=1e-4, equal_nan=True))


def _judged(found: Found, strange: list[str], got: Any, wanted: Any, truth: dict[str, np.ndarray]) -> str:
    """What speaks against the learner: it must be within the tolerance of the truth, nearer than the reference."""
    metrics = [name for name in strange if name.startswith(METRICS)]
    explained = metrics if len(strange) > len(metrics) else []  # by the arrays that differ, and are judged
    seen = {name: exact for name, exact in _numbers(truth).items() if name in got}
    unseen = [name for name in strange if name not in seen and name not in explained]
    blame = [f"{name} differs" for name in unseen if not _nothing(truth.get(name), got[name])]
    distances = {}
    for name, exact in seen.items():
        fast, reference = (found.error(name, arrays[name].astype(np.float64), exact) for arrays in (got, wanted))
        distances[name] = fast, reference
        if name in strange and not (fast <= STEP_TOLERANCE and fast <= reference):
            blame.append(f"{name} is {fast:.1e} from the truth, the reference {reference:.1e}")
    if not blame:
        found.compared(strange, distances)
    return "; ".join(blame)


def _nothing(exact: np.ndarray | None, got: np.ndarray) -> bool:
    """Whether an array that is zero is next to zero, as rounding leaves it."""
    return exact is not None and exact.dtype == np.float64 and bool(np.linalg.norm(got) <= NOTHING)


def _numbers(truth: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays that an error can be measured in: not whole numbers, and not all zero."""
    return {name: array for name, array in truth.items() if array.dtype == np.float64 and array.any()}


def _on_an_edge(truth: dict[str, np.ndarray], reference: Any, agent: Agent, timestep: Any) -> bool:
    """Whether what comes out of a step moves by more than the tolerance when the last digits of what goes in do."""
    random = np.random.default_rng(0)

    def moved(name: str, other: np.ndarray, exact: np.ndarray) -> bool:
        if name.startswith("learnt/"):
            return not _alike(other, exact)
        return relative_error(other, exact) > STEP_TOLERANCE

    def moves() -> bool:
        other = true_state(reference, agent, timestep, random)
        return any(moved(name, other[name], exact) for name, exact in _numbers(truth).items())

    return any(moves() for _ in range(SHAKES))


def main() -> None:
    words = words_for(__doc__)
    words.add_argument("--steps", type=int, default=300, help="on MinAtar's shape and on vectors")
    words.add_argument("--large-steps", type=int, default=40, help="on Octax's and Atari's shapes")
    words.add_argument("--along-fast", action="store_true", help="step by step along the learner's way")
    said = words.parse_args()

    def cells(suite: str, agent: Agent, spec: EnvSpec) -> list[str]:
        steps = said.steps if suite in ("minatar", "vector", BOX) else said.large_steps
        found = compare_steps(agent, spec, steps, look_every=10, along_fast=said.along_fast)
        array = found.array.removeprefix("stream/").removeprefix("agent/")
        beyond = f" ({len(found.beyond)} beyond 1e-5)" if found.beyond else ""
        beyond += f" ({counted(found.edges, 'step')} on an edge)" if found.edges else ""
        return [str(steps), f"{found.worst:.1e}{beyond}", f"`{array}`", f"{found.fast:.1e}", f"{found.reference:.1e}"]

    columns = ("steps", "largest error, learner to definition", "in", "learner to truth", "definition to truth")
    print_rows(said, columns, cells)


if __name__ == "__main__":
    main()
