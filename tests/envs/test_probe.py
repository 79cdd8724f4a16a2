"""Each TD rule on environments whose values are known."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import headrace.engines.jax.arrays  # noqa: F401 - agents are trees
from headrace.agents import FAMILY, Agent, agent_named, tweak
from headrace.definition.networks import layout_of, q_values
from headrace.definition.step import AgentState, act, draw_step, init_agent, learn
from headrace.definition.transition import Transition
from headrace.engines.jax.compiled import CompiledStream
from headrace.envs.probe import CORRIDOR, ON, PUZZLES, TERMINATED, TRUNCATED, Probe, Puzzle

GAMMA = 0.9
RULES = {
    "dqn": tweak(agent_named("dqn"), "td.lr=0.02", "td.target=Copy(every=20)"),
    "strq": agent_named("strq"),
    "qrc": tweak(agent_named("qrc"), "td.lr=0.02"),
    "strq, intentional": tweak(agent_named("strq"), "td.step_size=Intentional", "td.lr=0.25"),
    "strq, adaptive": tweak(agent_named("strq"), "td.step_size=Adaptive", "td.lr=3e-3"),
    "q+implicit": agent_named("q+implicit"),
    "q+decayed": tweak(agent_named("q+decayed"), "td.lr=1e-3"),
    "sarsa": tweak(agent_named("q+intentional"), "td=Sarsa(lr=0.25, step_size=Intentional)"),
    "expected-sarsa": agent_named("expected-sarsa"),
}
RULES = {name: tweak(agent, f"td.gamma={GAMMA}", "network=Mlp((32,), 32)") for name, agent in RULES.items()}


LAYOUT = layout_of(RULES["dqn"], (CORRIDOR,), 2)  # room for the largest: one program for all puzzles


class Table(NamedTuple):
    """A puzzle as arrays, with unused states after its own."""

    to: Any
    reward: Any
    end: Any
    starts: Any


def table(puzzle: Puzzle) -> Table:
    moves = np.array([[tuple(move) for move in row] for row in puzzle.moves])
    to, reward, end = np.pad(moves, ((0, CORRIDOR - len(moves)), (0, 0), (0, 0))).transpose(2, 0, 1)
    starts = np.resize(puzzle.starts, 2)
    return Table(to.astype(np.int32), reward.astype(np.float32), end.astype(np.int32), starts.astype(np.int32))


TABLES = jax.tree.map(lambda *arrays: np.stack(arrays), *(table(puzzle) for puzzle in PUZZLES.values()))


def learnt_q(agent: Agent, steps: int, eps: float) -> dict[str, np.ndarray]:
    """What the agent takes the values of each puzzle to be after so many steps of raw, unscaled experience."""
    found = np.asarray(_learnt(agent, steps, eps))
    return {name: q[: len(puzzle.moves)] for q, (name, puzzle) in zip(found, PUZZLES.items(), strict=True)}


# Twenty thousand steps on six puzzles: here optimising pays, which `make test` otherwise has XLA leave out.
WELL = {"xla_backend_optimization_level": 2, "xla_llvm_disable_expensive_passes": False}


@partial(jax.jit, compiler_options=WELL)
def _learnt(agent: Agent, steps: Any, eps: Any) -> Any:
    key = jax.random.key(0)

    def alone(table: Table) -> Any:
        def one(i: Any, carry: tuple[Any, AgentState]) -> tuple[Any, AgentState]:
            at, state = carry
            for_agent, for_env = jax.random.split(jax.random.fold_in(key, i))
            draws = draw_step(agent, LAYOUT, for_agent, jax.random.split(jax.random.fold_in(key, i + 1))[0])
            choice = act(agent, LAYOUT, state.params, jax.nn.one_hot(at, CORRIDOR), eps, draws)
            reached, end = table.to[at, choice.action], table.end[at, choice.action]
            transition = Transition(
                obs=jax.nn.one_hot(at, CORRIDOR),
                action=choice.action,
                reward=table.reward[at, choice.action],
                next_obs=jax.nn.one_hot(reached, CORRIDOR),
                terminated=end == TERMINATED,
                truncated=end == TRUNCATED,
                last=end != ON,
                greedy=choice.greedy,
            )
            after = jnp.where(end == ON, reached, jax.random.choice(for_env, table.starts))
            return after, learn(agent, LAYOUT, state, transition, eps, draws)[0]

        began = table.starts[0], init_agent(agent, LAYOUT, key)
        params = jax.lax.fori_loop(0, steps, one, began)[1].params
        return jax.vmap(partial(q_values, LAYOUT, params))(jnp.eye(CORRIDOR))

    return jax.vmap(alone)(TABLES)


def test_the_known_values_are_those_worked_out_by_hand() -> None:
    both = {
        "one_step": [[1, 1]],
        "two_states": [[0.9, 0.9], [1, 1]],
        "delayed": [[0.81, -0.81], [0.9, 0.9], [-0.9, -0.9], [1, 1], [-1, -1]],
        "action": [[1, -1]],
        "ends": [[1, 1], [10, 10]],
        "corridor": [[0.9 ** (CORRIDOR - 1 - i)] * 2 for i in range(CORRIDOR)],
    }
    assert list(both) == list(PUZZLES)
    for name, known in both.items():
        np.testing.assert_allclose(PUZZLES[name].q(GAMMA), known, atol=1e-9, err_msg=name)


USUAL = ("dqn", "strq", "qrc")


@pytest.mark.parametrize("rule", [r if r in USUAL else pytest.param(r, marks=pytest.mark.long) for r in RULES])
def test_each_rule_finds_the_known_values(rule: str) -> None:
    found = learnt_q(RULES[rule], 20_000, eps=0.5)
    for name, puzzle in PUZZLES.items():
        known = puzzle.q(GAMMA, eps=0.5 if "sarsa" in rule else 0.0)
        np.testing.assert_allclose(found[name], known, atol=0.05 * np.abs(known).max(), err_msg=f"{rule} on {name}")


@pytest.mark.parametrize(("rule", "settings", "walks"), [("strq", (), 20), ("qrc", ("td.lr=0.003",), 50)])
def test_traces_carry_a_reward_down_the_corridor(rule: str, settings: tuple[str, ...], walks: int) -> None:
    """After a few walks the values of the way taken are nearer to the truth with traces than without."""
    known = PUZZLES["corridor"].q(GAMMA).max(axis=1)
    errors = []
    for lamda in (0.9, 0):
        agent = tweak(RULES[rule], f"td.lamda={lamda}", *settings)
        errors.append(np.abs(learnt_q(agent, walks * CORRIDOR, eps=0.0)["corridor"].max(axis=1) - known).mean())
    assert errors[0] < 0.9 * errors[1], errors


def test_a_probe_steps_as_its_puzzle_says() -> None:
    env = Probe("delayed")
    state, obs = env.init(jax.random.key(0))
    assert obs.tolist() == [1, 0, 0, 0, 0]
    seen = []
    for action in (1, 0, 0):
        state, timestep = env.step(state, action, jax.random.key(1))
        seen.append((int(timestep.successor.argmax()), float(timestep.reward), bool(timestep.last)))
    assert seen == [(2, 0.0, False), (4, 0.0, False), (4, -1.0, True)]
    assert int(timestep.obs.argmax()) == 0
    assert env.render(state).shape == (16, 80, 3)
    starts = {int(Probe("ends").init(jax.random.key(i))[0].at) for i in range(20)}
    assert starts == {0, 1}


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILY)
def test_each_of_the_family_learns_which_way_leads_to_the_reward(name: str) -> None:
    """The best episode returns 1, the other one -1."""
    agent = tweak(agent_named(name), "network=Mlp((32,), 32)")
    stream = CompiledStream(agent, Probe("delayed"), seed=0, steps=6000)
    stream.begin()
    returns = [episode.episode_return for _ in range(6) for episode in stream.run(1000)]
    assert np.mean(returns[-300:]) > 0.9
