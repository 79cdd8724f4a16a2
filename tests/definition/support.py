"""Small agents, random experience and quick compilation for the tests of the reference engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import Agent, Auxiliary, Conv, Curl, Mlp, Spr, tweak
from headrace.definition.auxiliary import init_aux
from headrace.definition.evaluate import evaluate
from headrace.definition.networks import Layout, Modules, layout_of
from headrace.definition.step import AgentState, draw_step, example, init_agent, learn
from headrace.definition.td import TdStep, init_td, replay, update_td
from headrace.definition.transition import ActionDraws, Draws, StepContext, Transition
from headrace.engines.jax import arrays  # noqa: F401 - agents are trees

VECTOR = Mlp((5,), 4)
IMAGE = Conv((2,), ((2, 2),), ((1, 1),), 3)
SHAPES: dict[Any, tuple[int, ...]] = {VECTOR: (3,), IMAGE: (3, 4, 2)}
N_ACTIONS = 3

QUICK = {  # compiles in little time
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,  # half the time
}


def compiled(function: Any, **kwargs: Any) -> Any:
    """The function compiled in little time, not to run fast."""
    return jax.jit(function, compiler_options=QUICK, **kwargs)


TRACED: Counter[Any] = Counter()  # how often a program was made for an agent of this structure in this layout


EPSILON = 0.25  # at every step of these tests


def _learn(agent: Agent, layout: Layout, state: AgentState, t: Transition, draws: Any) -> Any:
    TRACED[jax.tree.structure(agent), layout] += 1
    return learn(agent, layout, state, t, EPSILON, draws)


learn_compiled = compiled(_learn, static_argnums=1)


def small(agent: Agent, network: Conv | Mlp = VECTOR) -> Agent:
    """The agent on a tiny network, looking back two steps (SPR) or on three observations (CURL)."""
    agent = replace(agent, network=network)
    if not isinstance(agent.aux, Auxiliary):
        return agent
    if isinstance(agent.aux.objective, Curl):
        return tweak(agent, "aux.objective.batch=3", "aux.objective.latent=4")
    assert isinstance(agent.aux.objective, Spr)
    return tweak(agent, "aux.objective.horizon=2")


def small_layout(agent: Agent) -> Layout:
    return layout_of(agent, SHAPES[agent.network], N_ACTIONS)


def transition(
    obs: Any, action: int, reward: float, next_obs: Any, terminated=False, truncated=False, last=None, greedy=True
) -> Transition:
    last = terminated or truncated if last is None else last
    return Transition(
        jnp.asarray(obs, jnp.float32), jnp.int32(action), jnp.float32(reward), jnp.asarray(next_obs, jnp.float32),
        jnp.bool_(terminated), jnp.bool_(truncated), jnp.bool_(last), jnp.bool_(greedy),
    )  # fmt: skip


def experience(shape: tuple[int, ...], steps: int, seed: int = 0) -> list[Transition]:
    """Random transitions in which every 4th action is not greedy, every 7th step terminates, every 11th truncates."""
    random = np.random.default_rng(seed)
    found, obs = [], random.normal(size=shape)
    for t in range(1, steps + 1):
        ends = {"terminated": t % 7 == 0, "truncated": t % 11 == 0, "greedy": t % 4 != 0}
        successor = random.normal(size=shape)
        found.append(transition(obs, int(random.integers(N_ACTIONS)), float(random.normal()), successor, **ends))
        obs = random.normal(size=shape) if ends["terminated"] or ends["truncated"] else successor
    return found


def dense_params(params: Modules, seed: int = 0, spread: float = 0.5) -> Modules:
    """Random parameters without zeros, so that every path of the network matters."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(spread * random.normal(size=x.shape), x.dtype), params)


def draws_of(agent: Agent, step: int) -> Any:
    keys = (jax.random.fold_in(jax.random.key(0), step + ahead) for ahead in (0, 1))
    return draw_step(agent, small_layout(agent), *keys)


def start(agent: Agent, seed: int = 0, params: Modules | None = None) -> AgentState:
    """An agent at its first step, with parameters that are not sparse."""
    layout = small_layout(agent)
    shapes = jax.eval_shape(lambda key: init_agent(agent, layout, key), jax.random.key(0))
    fresh = jax.tree.map(lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)), shapes)
    params = dense_params(fresh.params, seed) if params is None else params
    td, aux = init_td(agent.td, params, example(layout)), init_aux(agent.aux, params, example(layout))
    return fresh._replace(params=params, td=td, aux=aux)


def td_step(rule: Any, layout: Layout, params: Modules, state: Any, t: Transition, draw: Any) -> TdStep:
    """What `learn` has a rule do with one transition."""
    learnt, state = replay(rule, state, t, draw)
    draws = Draws(draw, draw, draw, jnp.zeros(0), jnp.zeros(0), ahead=ActionDraws(draw, draw))
    context = StepContext(jnp.int32(0), jnp.float32(0.1), draws)
    values = evaluate(rule, layout, params, state, learnt, context)
    return update_td(rule, values, params, state, learnt, context)


def run(agent: Agent, state: AgentState, transitions: list[Transition], step: Any = learn_compiled) -> AgentState:
    """The state after learning from the transitions."""
    layout = small_layout(agent)
    for i, t in enumerate(transitions):
        state, _ = step(agent, layout, state, t, draws_of(agent, i))
    return state


def learn_eagerly(agent: Agent, layout: Layout, state: AgentState, t: Transition, draws: Any) -> Any:
    """One operation after the other: nothing is compiled for an agent of its own."""
    with jax.disable_jit():
        return learn(agent, layout, state, t, EPSILON, draws)


def flat(tree: Any) -> np.ndarray:
    """All numbers of a tree in one vector."""
    leaves = [np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)
