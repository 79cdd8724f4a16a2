"""How far both engines are apart after many steps, each going on from its own state.

What is the algorithm's own sensitivity is measured beside it: the reference engine against itself, with parameters that
are rounded otherwise after every step. `python -m tests.engines.learner.free` makes the table of docs/parity.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent
from headrace.envs.base import EnvSpec, TimeStep
from tests.engines.learner.rows import print_rows, words_for
from tests.engines.learner.support import Reference, engines, experience, relative_error

Arrays = dict[str, np.ndarray]
FREE_TOLERANCE = 1e-3
PARAMETERS = "stream/agent/params/"


@dataclass
class Errors:
    """The largest relative error of any array of the parameters, and of any module's parameters as one vector.

    An array is measured by its own norm, and that can be next to nothing: a bias begins at zero, and one below a
    LayerNorm has a gradient that nearly cancels. What it is beside the weights that it stands with, its module tells.
    """

    array: float
    in_array: str
    module: float
    in_module: str


@dataclass
class Apart:
    """How far engines are apart after these steps."""

    steps: int
    fast: Errors  # of the learner, against the reference engine
    itself: list[Errors]  # of each reference engine that rounds otherwise


def run_free(agent: Agent, spec: EnvSpec, steps: int, shaken: int = 0, looks: int = 10) -> list[Apart]:
    """Both engines, and so many that round otherwise, on the same experience, compared on the way."""
    reference, fast = engines(agent, spec)
    beside = [Shaken(agent, spec, which) for which in range(shaken)]
    first, answers = experience(spec.frame_shape, steps)
    for engine in (reference, fast, *beside):
        engine.begin(first)
    found = []
    for t, timestep in enumerate(answers, 1):
        for engine in (reference, fast, *beside):
            engine.learn(timestep)
        if t % max(steps // looks, 1) == 0:
            wanted = reference.save()
            itself = [errors_between(engine.save(), wanted) for engine in beside]
            found.append(Apart(t, errors_between(fast.save(), wanted), itself))
    return found


class Shaken(Reference):
    """The reference engine, had it rounded otherwise: after every step each parameter is what it was, or one of the two
    numbers beside it, at random. Two correct engines differ like that, by the order of their sums."""

    def __init__(self, agent: Agent, spec: EnvSpec, which: int) -> None:
        super().__init__(agent, spec)
        self.key = jax.random.key(which, impl="rbg")

    def learn(self, timestep: TimeStep) -> None:
        super().learn(timestep)
        assert self.state is not None
        learnt = self.state.agent
        params = _rounded_otherwise(learnt.params, jax.random.fold_in(self.key, learnt.step))
        self.state = self.state._replace(agent=learnt._replace(params=params))


@jax.jit
def _rounded_otherwise(params: Any, key: jax.Array) -> Any:
    arrays, shape = jax.tree.flatten(params)
    keys = jax.random.split(key, len(arrays))
    return jax.tree.unflatten(shape, [_neighbour(*each) for each in zip(arrays, keys, strict=True)])


def _neighbour(x: jax.Array, key: jax.Array) -> jax.Array:
    way = jax.random.randint(key, x.shape, -1, 2)
    return jnp.where(way == 0, x, jnp.nextafter(x, jnp.where(way > 0, jnp.inf, -jnp.inf)))


def errors_between(got: Arrays, wanted: Arrays) -> Errors:
    """Of two saved states."""
    arrays = {name: relative_error(got[name], wanted[name]) for name in parameters_of(wanted)}
    modules = {
        module: relative_error(_together(got, names), _together(wanted, names))
        for module, names in modules_of(wanted).items()
    }
    in_array, in_module = max(arrays, key=arrays.__getitem__), max(modules, key=modules.__getitem__)
    return Errors(arrays[in_array], in_array.removeprefix(PARAMETERS), modules[in_module], in_module)


def parameters_of(arrays: Arrays) -> list[str]:
    return [name for name in arrays if name.startswith(PARAMETERS)]


def modules_of(arrays: Arrays) -> dict[str, list[str]]:
    """The names of each module's arrays."""
    found: dict[str, list[str]] = {}
    for name in parameters_of(arrays):
        found.setdefault(name.removeprefix(PARAMETERS).split("/")[0], []).append(name)
    return found


def _together(arrays: Arrays, names: list[str]) -> np.ndarray:
    return np.concatenate([arrays[name].ravel() for name in names])


def main() -> None:
    words = words_for(__doc__)
    words.add_argument("--steps", type=int, default=1000)
    words.add_argument("--shaken", type=int, default=1, help="how many reference engines round otherwise")
    said = words.parse_args()

    def cells(suite: str, agent: Agent, spec: EnvSpec) -> list[str]:
        found = run_free(agent, spec, said.steps, said.shaken)
        fast, itself = found[-1].fast, found[-1].itself
        return [
            str(found[-1].steps),
            f"{fast.array:.1e}", f"`{fast.in_array}`", ", ".join(f"{errors.array:.1e}" for errors in itself),
            first_beyond(found, lambda errors: errors.array),
            f"{fast.module:.1e}", f"`{fast.in_module}`", ", ".join(f"{errors.module:.1e}" for errors in itself),
            first_beyond(found, lambda errors: errors.module),
        ]  # fmt: skip

    measured = ("in", "reference to itself", "beyond 1e-3 from step")
    print_rows(said, ("steps", "an array's error", *measured, "a module's error", *measured), cells)


def first_beyond(found: list[Apart], measure: Callable[[Errors], float]) -> str:
    """The first look at which the engines were too far apart; empty where there was none."""
    return next((str(look.steps) for look in found if measure(look.fast) > FREE_TOLERANCE), "")


if __name__ == "__main__":
    main()
