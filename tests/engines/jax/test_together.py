"""What host fleets do for the sake of few kernels changes no number but by rounding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import Agent, Conv, Relu, agent_named, tweak
from headrace.definition.evaluate import evaluate
from headrace.definition.networks import Layout, encode, layout_of, unroll
from headrace.definition.step import AgentState, draw_step, example, init_agent
from headrace.definition.transition import StepContext
from headrace.engines.jax.packed import Packed, pack, packed_where_known, unpack
from headrace.engines.jax.together import evaluate_together
from tests.definition.support import compiled

NETWORK = Conv((4, 8), ((3, 3), (2, 2)), ((2, 2), (1, 1)), 6)
SHAPE, ACTIONS = (9, 8, 2), 4
AGENTS = {
    "qrc": agent_named("qrc"),
    "a head of ReLU": replace(agent_named("qrc"), network=replace(NETWORK, head=Relu())),
    "a target network": tweak(agent_named("qrc"), "td.target=Copy(every=10)"),
    "another rule": agent_named("strq"),
}


def begun(agent: Agent) -> tuple[Layout, AgentState]:
    """An agent none of whose parameters is zero."""
    layout = layout_of(agent, SHAPE, ACTIONS)
    state = init_agent(agent, layout, jax.random.key(1))
    moved = [
        x + 0.1 * jax.random.normal(jax.random.key(i), x.shape) for i, x in enumerate(jax.tree.leaves(state.params))
    ]
    return layout, state._replace(params=jax.tree.unflatten(jax.tree.structure(state.params), moved))


def assert_near(got: Any, wanted: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=3e-6 * max(1.0, float(jnp.abs(theirs).max())))


@pytest.mark.parametrize("name", AGENTS)
def test_values_found_together_are_the_definitions(name: str) -> None:
    agent = AGENTS[name] if isinstance(AGENTS[name].network, Conv) else replace(AGENTS[name], network=NETWORK)
    layout, state = begun(agent)
    obs, following = jax.random.normal(jax.random.key(2), (2, *SHAPE))
    t = example(layout)._replace(obs=obs, next_obs=following, action=jnp.int32(2), reward=jnp.float32(1))
    key = jax.random.key(3)
    context = StepContext(jnp.int32(7), jnp.float32(0.1), draw_step(agent, layout, key, key))

    def found(by: Any) -> Any:
        return compiled(lambda params, t: by(agent.td, layout, params, state.td, t, context))(state.params, t)

    together, wanted = found(evaluate_together), found(evaluate)
    assert_near(together, wanted)
    if agent.td.lamda and wanted.h:
        assert all(jnp.any(x != 0) for x in jax.tree.leaves((wanted.q.gradient, wanted.h.gradient)))


def test_a_packed_state_is_the_same_numbers_and_comes_back() -> None:
    agent = replace(agent_named("qrc+spr+orth"), network=NETWORK)
    _layout, state = begun(agent)
    streams = jax.tree.map(lambda x: jnp.stack([x, -x]) if x.dtype == jnp.float32 else jnp.stack([x, x]), state)
    packed = pack(streams)
    assert [x.shape for x in jax.tree.leaves(packed.params["encoder"])] == [(2, 4 * 19 + 8 * 17)]
    assert len(jax.tree.leaves(packed)) == 30 < 51 == len(jax.tree.leaves(streams))
    for row in range(2):
        mine = unpack(state, jax.tree.map(lambda x, row=row: np.asarray(x[row]), packed))
        jax.tree.map(np.testing.assert_array_equal, mine, jax.tree.map(lambda x, row=row: x[row], streams))


def test_a_network_finds_its_layers_in_a_packed_module() -> None:
    agent = replace(agent_named("qrc+spr+orth"), network=NETWORK)
    layout, state = begun(agent)
    network = packed_where_known(agent, layout)
    assert isinstance(network, Packed)
    params = jax.tree.map(lambda x: x[0], pack(jax.tree.map(lambda x: x[None], state.params)))
    obs, actions = jax.random.normal(jax.random.key(4), SHAPE), jnp.eye(ACTIONS)[:2]
    z = encode(layout.network, state.params["encoder"], obs)
    np.testing.assert_array_equal(encode(network, params["encoder"], obs), z)
    imagined = unroll(layout.network, state.params["dynamics"], z, actions)
    np.testing.assert_array_equal(unroll(network, params["dynamics"], z, actions), imagined)


def test_a_part_of_another_package_is_left_its_layers() -> None:
    @dataclass(frozen=True)
    class Foreign(Conv):
        pass

    agent = replace(
        agent_named("qrc"), network=Foreign(*(getattr(NETWORK, n) for n in ("channels", "kernels", "strides")))
    )
    layout = layout_of(agent, SHAPE, ACTIONS)
    assert packed_where_known(agent, layout) is layout.network
