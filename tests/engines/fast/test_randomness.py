"""The same random numbers as JAX's, and the same first parameters as the reference engine's, to the bit."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from numba import njit

from headrace.agents import agent_named
from headrace.definition.augment import views
from headrace.definition.networks import init_params
from headrace.definition.networks import sparse as reference_sparse
from headrace.engines.fast.kernels.windows import normal
from headrace.engines.fast.machine import fill_uniform, hashed
from headrace.engines.fast.starting import key_of, sparse
from tests.engines.fast.support import SMALL, VECTOR, FastEngine, on, spec_of


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31 - 1])
def test_keys_are_folded_and_split_as_jax_does(seed):
    key = jax.random.key(seed, impl="threefry2x32")
    for step in (0, 1, 77, 2**31 - 1):
        folded = hashed(*key_of(seed), 0, step)
        assert folded == tuple(jax.random.key_data(jax.random.fold_in(key, step)).tolist())
        halves = [hashed(*folded, 0, i) for i in range(2)]
        wanted = jax.random.key_data(jax.random.split(jax.random.fold_in(key, step))).tolist()
        assert [list(half) for half in halves] == wanted


@pytest.mark.parametrize("count", [1, 2, 21, 1000])
def test_uniform_numbers_are_jaxs(count):
    out = np.empty(count, np.float32)
    fill_uniform(*key_of(7), out)
    wanted = jax.random.uniform(jax.random.key(7, impl="threefry2x32"), (count,))
    np.testing.assert_array_equal(out, np.asarray(wanted))


@njit
def normals(uniform):
    """What only compiled code may call."""
    return np.array([normal(u) for u in uniform])


def test_views_are_made_of_the_same_normal_numbers():
    uniform = np.linspace(0, 1, 600, endpoint=False, dtype=np.float32)
    wanted = np.asarray(views(np.repeat(uniform, 3)).intensity)
    got = normals(uniform)
    np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6)
    assert got.min() == -2
    assert got.max() == 2


@pytest.mark.parametrize("shape", [(3, 3, 2, 5), (40, 7), (4, 3), (1, 2)])
def test_sparse_layers_are_the_reference_engines(shape):
    values, order = np.random.default_rng(0).random((2, int(np.prod(shape))), np.float32)
    wanted = np.asarray(reference_sparse(values, order, shape))
    np.testing.assert_allclose(sparse(values, order, shape).reshape(shape), wanted, rtol=1e-7)


def test_a_stream_starts_with_the_parameters_of_the_reference_engine():
    agent, spec = on(agent_named("qrc+spr"), VECTOR), spec_of(SMALL[VECTOR])
    engine = FastEngine(agent, spec, seed=5, steps=10)
    engine.begin(np.zeros(spec.observation_shape, np.float32))
    saved = engine.save()
    from headrace.definition.networks import layout_of

    key = jax.random.fold_in(jax.random.key(5, impl="threefry2x32"), 2**31 - 1)
    for module, layers in init_params(agent, layout_of(agent, spec.observation_shape, 3), key).items():
        for i, layer in enumerate(layers):
            for name, array in layer.items():
                got = saved[f"stream/agent/params/{module}/{i}/{name}"]
                np.testing.assert_allclose(got, np.asarray(array), rtol=1e-7)
