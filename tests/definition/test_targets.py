from __future__ import annotations

import jax.numpy as jnp
import pytest

from headrace.agents import Copy, Online, Polyak
from headrace.definition.targets import follow, init_target, read_target


def targets(rule, values):
    """What the target reads after each of the values has become the present one."""
    state, seen = init_target(rule, {"w": jnp.float32(0)}), []
    for step, value in enumerate(values, start=1):
        present = {"w": jnp.float32(value)}
        state = follow(rule, state, present, jnp.int32(step))
        seen.append(float(read_target(rule, state, present)["w"]))
    return seen


def test_the_online_target_is_the_present():
    assert targets(Online(), [1, 2, 3]) == [1, 2, 3]
    assert init_target(Online(), {"w": jnp.float32(0)}) == ()


def test_a_copy_is_renewed_with_the_parameters_after_every_nth_step():
    assert targets(Copy(3), [1, 2, 3, 4, 5, 6, 7]) == [0, 0, 3, 3, 3, 6, 6]
    assert targets(Copy(1), [1, 2]) == [1, 2]


def test_an_average_starts_as_a_copy_and_keeps_its_fraction():
    assert targets(Polyak(0.75), [4, 8]) == [1.0, 0.75 + 2]
    assert targets(Polyak(0.995), [1]) == pytest.approx([0.005])
    assert targets(Polyak(0.0), [1, 2]) == [1, 2]
