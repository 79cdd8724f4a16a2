"""Several steps of a fleet's loop as one turn."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headrace.agents import agent_named
from headrace.engines.reference.compiled import BUFFER
from headrace.engines.reference.fleet import Fleet
from headrace.engines.reference.fused import ForMany
from headrace.engines.reference.networks import steps_a_turn
from headrace.envs.registry import environment


def test_steps_of_a_turn_are_the_steps_of_the_loop() -> None:
    """Where nothing is left as a formula, to the bit: states, environments, log and sums."""
    fleet = Fleet([agent_named("dqn")] * 2, [environment("minatar/breakout").compiled()] * 2, [0, 1], 1000)
    fleet.begin()
    start = fleet._begun()

    def after(turn: int) -> Any:
        states = jax.tree.map(jnp.copy, start)
        return jax.jit(partial(fleet._advance_all, n=60, turn=turn))(fleet.settings, *states)

    one, three = after(1), after(3)
    assert np.asarray(one[2].ended).any()  # an episode ended in these steps
    jax.tree.map(np.testing.assert_array_equal, one, three)


def test_a_block_is_a_whole_number_of_turns() -> None:
    network = ForMany(agent_named("qrc").network)
    assert steps_a_turn(network) > 1
    assert BUFFER % steps_a_turn(network) == 0
