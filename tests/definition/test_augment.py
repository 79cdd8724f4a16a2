from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import AsIs, Clipped, ShiftAndIntensity
from headrace.definition.augment import View, augment, offsets, shifted, views
from tests.definition import oracle

IMAGE = np.random.default_rng(0).normal(size=(6, 5, 2))


def view(rows, columns, normal=0.0):
    return View(jnp.array([rows, columns], jnp.float32), jnp.float32(normal))


def test_a_shift_repeats_the_edges():
    image = jnp.array([[1.0, 2.0], [3.0, 4.0]])[..., None]
    assert shifted(image, jnp.array([1, 0]))[..., 0].tolist() == [[3, 4], [3, 4]]
    assert shifted(image, jnp.array([0, -1]))[..., 0].tolist() == [[1, 1], [3, 3]]
    assert shifted(image, jnp.array([-4, 4]))[..., 0].tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("shift", [0, 1, 4, 7])
@pytest.mark.parametrize("uniform", [(0.0, 0.999), (0.5, 0.5), (0.3, 0.8)])
def test_a_shift_is_edge_padding_and_a_crop(shift, uniform):
    found = augment(ShiftAndIntensity(shift), jnp.asarray(IMAGE, jnp.float32), view(uniform[0], uniform[1], 0.7))
    np.testing.assert_allclose(found, oracle.view(IMAGE, shift, 0.05, np.array(uniform), 0.7), rtol=1e-5)


def test_offsets_are_uniform_from_minus_the_shift_to_the_shift():
    drawn = np.asarray(offsets(4, jax.random.uniform(jax.random.key(0), (90_000,))))
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == list(range(-4, 5))
    assert counts == pytest.approx(np.full(9, 10_000), rel=0.05)
    assert offsets(4, jnp.array([0.0, 0.9999999])).tolist() == [-4, 4]


@pytest.mark.parametrize(("normal", "factor"), [(1.0, 1.05), (-1.0, 0.95), (2.0, 1.1)])
def test_intensity_is_a_factor(normal, factor):
    found = augment(ShiftAndIntensity(0), jnp.asarray(IMAGE, jnp.float32), view(0.5, 0.5, normal))
    np.testing.assert_allclose(found, factor * IMAGE, rtol=1e-5)


def test_a_uniform_number_becomes_a_normal_one_clipped_at_two():
    """The normal distribution's quantiles: 0 at 1/2, 1 at 0.8413, -1.2816 at 1/10."""
    uniform = jnp.array([[0, 0, u] for u in (0.5, 0.8413447, 0.1, 0.0, 0.99999, 0.02)]).ravel()
    wanted = [0, 1, -1.2815516, -2, 2, -2]
    assert views(uniform).intensity.tolist() == pytest.approx(wanted, abs=1e-5)


def test_the_intensities_of_many_views_are_a_clipped_normal_distribution():
    drawn = np.asarray(views(jax.random.uniform(jax.random.key(0), (3 * 40_000,))).intensity)
    assert (drawn.mean(), (drawn == 2).mean(), (drawn == -2).mean()) == pytest.approx((0, 0.0228, 0.0228), abs=0.01)
    assert np.median(np.abs(drawn)) == pytest.approx(0.6745, abs=0.01)


def test_values_are_not_clipped_except_where_the_released_code_did():
    wide = jnp.array([[-3.0, 5.0]])[..., None]
    assert augment(ShiftAndIntensity(0), wide, view(0.5, 0.5))[..., 0].tolist() == [[-3, 5]]
    assert augment(Clipped(ShiftAndIntensity(0)), wide, view(0.5, 0.5))[..., 0].tolist() == [[0, 1]]


def test_no_augmentation_leaves_the_image_alone():
    assert np.array_equal(augment(AsIs(), IMAGE, view(0.1, 0.9, 2.0)), IMAGE)


def test_a_vector_is_scaled_and_not_shifted():
    assert augment(ShiftAndIntensity(4), jnp.array([1.0, 2.0]), view(0.0, 0.0, 1.0)).tolist() == pytest.approx(
        [1.05, 2.1]
    )


def test_every_image_gets_numbers_of_its_own():
    drawn = views(jnp.arange(1, 19) / 19)
    assert (drawn.shift.shape, drawn.intensity.shape) == ((6, 2), (6,))
    assert len(np.unique(drawn.shift)) == 12
    assert drawn.shift[1].tolist() == pytest.approx([4 / 19, 5 / 19])
