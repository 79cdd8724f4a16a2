"""What holds for every agent. A new name is held to it without another line.

The usual run has agents enough to have every part in every slot; the long run has all.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import KNOWN, agent_named, from_json, to_json
from headrace.definition.step import learn
from headrace.engines.jax.arrays import from_named_arrays, named_arrays
from tests.covering import covering
from tests.definition.support import (
    EPSILON,
    SHAPES,
    TRACED,
    VECTOR,
    draws_of,
    experience,
    learn_compiled,
    small,
    small_layout,
    start,
)


def usual(names: list[str]) -> list[Any]:
    return [name if name in names else pytest.param(name, marks=pytest.mark.long) for name in KNOWN]


COVERING = covering([*KNOWN])
ALL = usual([*COVERING, "strq+spr+orth2", "qrc+spr+orth"])  # the paper's best
EAGER = usual([*COVERING[:3], "q+implicit"])  # operation by operation it takes the longest
STEPS = 30
MIDDLE = 4  # the step after it is the fifth, at which `Every(5)` is open


def steps(agent, state, first, last):
    """The states after each of the steps `first` .. `last - 1`."""
    layout, seen, found = small_layout(agent), experience(SHAPES[agent.network], STEPS), []
    for i in range(first, last):
        state, learnt = learn_compiled(agent, layout, state, seen[i], draws_of(agent, i))
        found.append((state, learnt))
    return found


@cache
def course(name):
    """The agent, its first state, and what the compiled program made of thirty steps."""
    agent = small(agent_named(name))
    begun = start(agent)
    return agent, begun, steps(agent, begun, 0, STEPS)


def signature(tree):
    leaves = [(x.shape, x.dtype, x.weak_type) for x in map(jnp.asarray, jax.tree.leaves(tree))]
    return jax.tree.structure(tree), leaves


def assert_close(a, b):
    assert signature(a)[0] == signature(b)[0]
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-5)


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.parametrize("name", ALL)
def test_thirty_steps_stay_finite_and_keep_structure_shapes_and_types(name):
    agent, begun, made = course(name)
    for state, learnt in made:
        assert signature(state) == signature(begun)
        assert signature(learnt) == signature(made[0][1])
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((state, learnt)))
    moved = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), begun.params, made[-1][0].params)
    assert all(jax.tree.leaves(moved)), moved
    assert any(bool(learnt.active) for _, learnt in made) == hasattr(agent.aux, "objective")


def varied(agent, factor):
    """The agent with every number that is no count multiplied."""
    return from_json(_varied(to_json(agent), factor))


def _varied(setting, factor):
    if isinstance(setting, dict):
        return {name: _varied(value, factor) for name, value in setting.items()}
    return setting * factor if isinstance(setting, float) else setting


def shaken(state, seed):
    """The state with every real number multiplied by one of its own."""
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: x * random.uniform(0.5, 1.5, x.shape).astype(x.dtype) if x.dtype == np.float32 else x, state
    )


def stacked(trees):
    return jax.tree.map(lambda *xs: jnp.stack([jnp.asarray(x) for x in xs]), *trees)


@pytest.mark.parametrize("name", EAGER)
def test_three_streams_at_once_without_compilation_are_each_alone_compiled(name):
    """Eager equals compiled and a batch equals a loop: seeds, numbers and transitions differ between the streams."""
    agent, _, made = course(name)
    layout, seen = small_layout(agent), experience(SHAPES[VECTOR], STEPS)
    agents = [varied(agent, factor) for factor in (1.0, 0.9, 0.5)]
    states = [made[MIDDLE][0], *(shaken(jax.device_get(made[MIDDLE][0]), seed) for seed in (1, 2))]
    lines = [(a, s, seen[6 + k], draws_of(agent, k)) for k, (a, s) in enumerate(zip(agents, states, strict=True))]
    _, *rest = (stacked(column) for column in zip(*lines, strict=True))
    together = jax.vmap(partial(learn, eps=EPSILON), (0, None, 0, 0))(
        stacked(agents), layout, *rest[:-1], draws=rest[-1]
    )
    for k, (a, s, t, d) in enumerate(lines):
        assert_close(jax.tree.map(lambda x, k=k: x[k], together), learn_compiled(a, layout, s, t, d))


@pytest.mark.parametrize("name", ALL)
def test_a_saved_and_restored_agent_goes_on_to_the_bit(name):
    agent, begun, made = course(name)
    arrays = named_arrays("agent", made[9][0])
    assert all(isinstance(a, np.ndarray) for a in arrays.values())
    restored = from_named_arrays("agent", jax.eval_shape(lambda: begun), arrays)
    assert_same(steps(agent, restored, 10, STEPS)[-1], made[-1])


@pytest.mark.parametrize("name", ALL)
def test_one_program_serves_every_step_and_all_numbers(name):
    agent, begun, made = course(name)
    steps(agent, begun, 0, 1)  # the program may have been forgotten since
    programs = TRACED.total()
    other = steps(varied(agent, 0.9), begun, 0, 8)
    assert TRACED.total() == programs
    assert not np.array_equal(other[-1][0].params["head"][0]["w"], made[7][0].params["head"][0]["w"])


@pytest.mark.parametrize("name", ALL)
def test_the_same_draws_give_the_same_bits(name):
    agent, begun, made = course(name)
    assert_same(steps(agent, begun, 0, 8)[-1], made[7])
