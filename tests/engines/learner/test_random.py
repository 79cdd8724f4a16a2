"""The learner's random numbers are JAX's."""

from __future__ import annotations

import ctypes

import jax
import numpy as np
import pytest

from headrace.learner import library

Words = ctypes.c_uint32 * 2


def folded(key, data):
    out = Words()
    library().hr_random_fold_in(Words(*key), data, out)
    return list(out)


@pytest.mark.parametrize("seed", [0, 12345, 2**31 - 1])
def test_keys_are_folded_and_split_as_jax_does(seed):
    key = jax.random.key(seed, impl="threefry2x32")
    for step in (0, 77, 2**31 - 1):
        after = folded((0, seed), step)
        wanted = jax.random.fold_in(key, step)
        assert after == jax.random.key_data(wanted).tolist()
        assert [folded(after, i) for i in range(3)] == jax.random.key_data(jax.random.split(wanted, 3)).tolist()


def test_uniform_numbers_are_jaxs():
    out = np.empty(1000, np.float32)
    library().hr_random_uniform(Words(0, 7), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(out.size))
    np.testing.assert_array_equal(out, np.asarray(jax.random.uniform(jax.random.key(7, impl="threefry2x32"), (1000,))))
