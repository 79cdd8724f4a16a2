"""How far the first steps of a run move an agent, and whether it still sees afterwards. About a minute of one core.

    python examples/first_step.py                  a few games, the nine variants with and without the guard
    python examples/first_step.py gym/MountainCar-v0 --agents qrc qrc+unguarded --steps 500

Sight is how far Q differs between screens, relative to how far it differs between actions (docs/glossary.md). What all
this is about is told in docs/first_step.md, whose tables are made by

    python examples/first_step.py atari/breakout atari/pong octax/pong octax/worm --steps 5000 \\
        --csv results/first_step.csv
"""

from __future__ import annotations

import argparse
import csv
import functools
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from headrace.agents import VARIANTS, Agent, agent_named, guards, tweak
from headrace.definition.networks import Layout, init_params, layout_of, q_values
from headrace.engines.jax.arrays import from_named_arrays
from headrace.engines.learner.engine import LearnerEngine
from headrace.envs.base import HostEnv
from headrace.envs.registry import environment

ENVIRONMENTS = ("minatar/breakout", "octax/pong", "atari/breakout", "atari/pong", "gym/CartPole-v1")
FIRST = 10  # steps whose length is measured
SEED = 0
PARAMS = "stream/agent/params"
SCREENS, APART, AFTER = 20, 25, 100  # of random play: how many, steps between two of them, steps before the first

Arrays = dict[str, np.ndarray]


class Found(NamedTuple):
    environment: str
    agent: str
    steps: int
    norm: float  # of all parameters before the first step
    largest: float  # of the first ten steps
    share: float  # the largest of them relative to the parameters' norm before it
    at: int  # which step that was
    sight_before: float
    sight_after: float  # after all steps


def trained(agent: Agent, env: HostEnv, steps: int) -> Iterator[Arrays]:
    """The whole state before the first step, after each of the first ten steps, and after the last one."""
    engine = LearnerEngine(agent, env.spec, seed=SEED, steps=5_000_000)  # the beginning of a run of the usual length
    engine.begin(env.reset(SEED))
    yield engine.save()
    for step in range(1, steps + 1):
        engine.learn(env.step(engine.action))
        if step <= FIRST or step == steps:
            yield engine.save()


def screens(env: HostEnv) -> np.ndarray:
    """Observations of random play, as an agent sees them: standardised and stacked."""
    still = tweak(agent_named("strq"), "td.lr=0", "explore.fraction=1")
    engine = LearnerEngine(still, env.spec, seed=SEED, steps=5_000_000)
    engine.begin(env.reset(SEED))
    seen = []
    for step in range(AFTER + SCREENS * APART):
        engine.learn(env.step(engine.action))
        if step >= AFTER and step % APART == 0:
            seen.append(engine.save()["stream/obs"])
    return np.stack(seen)


def norm(params: Arrays) -> float:
    return float(np.sqrt(sum(np.square(array, dtype=np.float64).sum() for array in params.values())))


def params_of(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name.startswith(PARAMS)}


def move(before: Arrays, after: Arrays) -> float:
    return norm({name: after[name] - before[name] for name in before})


def sight(q: np.ndarray) -> float:
    """How far Q differs between screens, relative to how far it differs between actions; q[screen, action]."""
    return float(np.sqrt(q.var(axis=0).mean()) / q.std(axis=1).mean())


@functools.partial(jax.jit, static_argnums=0)
def _values(layout: Layout, params: Any, shown: Any) -> Any:
    modules = {name: params[name] for name in ("encoder", "projection", "head")}
    return jax.vmap(functools.partial(q_values, layout, modules))(shown)


def values(agent: Agent, env: HostEnv, arrays: Arrays, shown: np.ndarray) -> np.ndarray:
    """Q of every screen and action."""
    layout = layout_of(agent, env.spec.observation_shape, env.spec.n_actions, env.spec.frames)
    template = jax.eval_shape(functools.partial(init_params, agent, layout), jax.random.key(0))
    return np.asarray(_values(layout, from_named_arrays(PARAMS, template, arrays), shown), np.float64)


def measured(name: str, env: HostEnv, shown: np.ndarray, steps: int) -> Found:
    agent = agent_named(name)
    states = trained(agent, env, steps)
    begun = now = next(states)
    moves, shares = [], []
    for state in states:
        before, now = params_of(now), state
        if len(moves) < FIRST:
            moves.append(move(before, params_of(now)))
            shares.append(moves[-1] / norm(before))
    first = int(np.argmax(moves))
    sees = [sight(values(agent, env, state, shown)) for state in (begun, now)]
    return Found(env.spec.name, name, steps, norm(params_of(begun)), moves[first], shares[first], first + 1, *sees)


def usual_agents(steps: int) -> list[str]:
    """The nine variants, and those that have a guard without it; of long runs only the base agents without it."""
    with_guard = [name for name in VARIANTS if guards(VARIANTS[name])]
    return [*VARIANTS, *(f"{name}+unguarded" for name in with_guard if steps <= FIRST or "+" not in name)]


def show(found: Found) -> None:
    step = f"{found.largest:12.4g}{found.share:12.4%}{found.at:6}"
    print(f"{found.agent:26}{step}{found.sight_before:12.3g}{found.sight_after:12.3g}", flush=True)


def on(name: str, agents: list[str], steps: int) -> Iterator[Found]:
    env = environment(name).host()
    shown = screens(env)
    for number, agent in enumerate(agents):
        found = measured(agent, env, shown, steps)
        if number == 0:
            after = f"after {steps:,}"
            print(f"\n{name}: {env.spec.n_actions} actions, {SCREENS} screens of random play")
            print(f"{'':26}{f'largest of the first {min(steps, FIRST)} steps':^30}{'sight':>18}")
            print(f"{'agent':26}{'norm':>12}{'of params':>12}{'step':>6}{'before':>12}{after:>12}")
        show(found)
        yield found


def write(path: str, rows: list[Found]) -> None:
    with open(path, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(Found._fields)
        table.writerows([f"{x:.6g}" if isinstance(x, float) else x for x in row] for row in rows)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="*", default=list(ENVIRONMENTS))
    parser.add_argument("--agents", nargs="+", help="default: the nine variants with and without the guard")
    parser.add_argument("--steps", type=int, default=FIRST, help="after which an agent is asked what it sees")
    parser.add_argument("--csv", help="also write the table to this file")
    args = parser.parse_args(words)
    agents, rows = args.agents or usual_agents(args.steps), []
    for name in args.environments:
        if missing := environment(name).install:
            print(f"\n{name}: not installed, skipped (pip install '{missing}')")
            continue
        rows += on(name, agents, args.steps)
        if args.csv:
            write(args.csv, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
