"""Running scales against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.normalize import (
    Moments,
    empty_moments,
    empty_reward_scale,
    include,
    include_reward,
    scaled_reward,
    standardised,
    variance,
)

UNROLLED = 25  # samples in one turn of the compiled loop


def mean_of(moments):
    return np.asarray(moments.mean, np.float64) + np.asarray(moments.mean_rest, np.float64)


def squares_of(moments):
    return np.asarray(moments.squares, np.float64) + np.asarray(moments.squares_rest, np.float64)


def split(value):
    """A float64 as the unevaluated sum of two float32."""
    high = np.float32(value)
    return high, np.float32(value - np.float64(high))


@jax.jit
def after(moments, samples):
    return jax.lax.scan(lambda m, x: (include(m, x), None), moments, samples)[0]


# small numbers, by hand -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xp", [np, jnp])
def test_two_four_and_nine(xp):
    """Mean 5, squared deviations 9 + 1 + 16 = 26, variance 13."""
    moments = empty_moments((), xp)
    for x in (2.0, 4.0, 9.0):
        moments = include(moments, xp.asarray(x, xp.float32))
    assert (int(moments.count), float(mean_of(moments)), float(squares_of(moments))) == pytest.approx((3, 5, 26))
    assert float(variance(moments, xp)) == pytest.approx(13)
    assert float(standardised(moments, xp.float32(9), xp)) == pytest.approx(4 / np.sqrt(13), rel=1e-6)


def test_the_variance_is_one_while_there_are_fewer_than_two_samples():
    moments = empty_moments((2,))
    assert variance(moments).tolist() == [1, 1]
    moments = include(moments, np.array([3.0, -8.0], np.float32))
    assert variance(moments).tolist() == [1, 1]
    assert standardised(moments, np.array([3.0, -8.0], np.float32)).tolist() == [0, 0]
    moments = include(moments, np.array([5.0, -8.0], np.float32))
    assert variance(moments).tolist() == [2, 0]


@pytest.mark.parametrize("xp", [np, jnp])
def test_what_rounding_took_from_the_mean_counts(xp):
    """Mean 2^24 + 1/2, which no float32 is; deviation 1: the next number above lies one and a half above the mean."""
    one = np.float32(1)
    moments = Moments(np.int32(2), np.float32(2**24), one / 2, one, one * 0)
    assert float(standardised(moments, xp.float32(2**24 + 2), xp)) == pytest.approx(1.5, rel=1e-6)


def test_a_constant_element_normalises_to_zero_and_not_to_nan():
    moments = empty_moments((1,))
    for _ in range(5):
        moments = include(moments, np.array([0.7], np.float32))
    assert standardised(moments, np.array([0.7], np.float32)).tolist() == pytest.approx([0], abs=1e-3)


def test_elements_are_normalised_apart():
    samples = np.random.default_rng(0).normal([0, 100], [1, 5], (50, 2)).astype(np.float32)
    moments = empty_moments((2,))
    for x in samples:
        moments = include(moments, x)
    assert mean_of(moments) == pytest.approx(samples.astype(np.float64).mean(0), abs=1e-6)
    assert variance(moments) == pytest.approx(samples.astype(np.float64).var(0, ddof=1), rel=1e-5)


def test_the_reward_scale_follows_the_discounted_sum():
    """u = 2, 4, 1, 1.5 for gamma 1/2 and an end at the third reward; their variance is 83/48."""
    scale = empty_reward_scale()
    for reward, ended in ((2.0, False), (3.0, False), (1.0, True), (1.0, False)):
        scale = include_reward(scale, np.float32(reward), np.bool_(ended), 0.5)
    assert float(scale.discounted) == 1.5
    u = [Fraction(2), Fraction(4), Fraction(1), Fraction(3, 2)]
    exact = sum((x - sum(u) / 4) ** 2 for x in u) / 3
    assert exact == Fraction(83, 48)
    assert float(variance(scale.moments)) == pytest.approx(float(exact), rel=1e-6)
    assert float(scaled_reward(scale, np.float32(3))) == pytest.approx(3 / np.sqrt(83 / 48), rel=1e-6)
    assert float(scaled_reward(scale, np.float32(0))) == 0


def test_numpy_and_jax_agree_and_keep_their_types():
    samples = np.random.default_rng(1).normal(1e3, 1, (300, 3)).astype(np.float32)
    of_numpy = empty_moments((3,))
    for x in samples:
        of_numpy = include(of_numpy, x)
    of_jax = after(empty_moments((3,), jnp), samples)
    for a, b, first in zip(of_numpy, of_jax, empty_moments((3,)), strict=True):
        assert a.dtype == b.dtype == first.dtype
        assert a.shape == b.shape == first.shape
    np.testing.assert_allclose(mean_of(of_numpy), mean_of(of_jax), rtol=1e-12)
    np.testing.assert_allclose(squares_of(of_numpy), squares_of(of_jax), rtol=1e-9)
    np.testing.assert_allclose(
        standardised(of_numpy, samples[0]), standardised(of_jax, jnp.asarray(samples[0]), jnp), rtol=1e-5
    )


# a hundred thousand samples against exact fractions -------------------------------------------------------------------


def exact_moments(samples):
    """Mean and sum of squared deviations of whole multiples of 2^-20, without any rounding."""
    whole = [int(x) for x in np.round(samples.astype(np.float64) * 2**20)]
    assert np.array_equal(np.array(whole) / 2**20, samples.astype(np.float64))
    n, total, squares = len(whole), sum(whole), sum(x * x for x in whole)
    return float(Fraction(total, n * 2**20)), float((squares - Fraction(total * total, n)) / 2**40)


def stream_named(name, n=100_000):
    random = np.random.default_rng(3)
    samples = {
        "offset": 1e4 + random.normal(size=n),
        "rare": random.random(n) < 1e-4,
        "drifting": np.linspace(0, 1000, n) + random.normal(size=n),
    }[name]
    return (np.round(samples.astype(np.float32).astype(np.float64) * 2**20) / 2**20).astype(np.float32)


@pytest.mark.parametrize("name", ["offset", "rare", "drifting"])
def test_a_hundred_thousand_samples_are_exact_to_a_ten_millionth_of_their_spread(name):
    samples = stream_named(name)
    moments = after(empty_moments((), jnp), samples)
    mean, squares = exact_moments(samples)
    spread = np.sqrt(squares / len(samples))
    assert float(mean_of(moments)) == pytest.approx(mean, rel=0, abs=1e-7 * spread)
    assert float(squares_of(moments)) == pytest.approx(squares, rel=2e-7)


# past a hundred million samples ---------------------------------------------------------------------------------------
#
# Two elements: 10,000 plus and minus 1 in turn, and a bit that is 1 once in 10,000 samples. Everything about them is
# known in closed form. Then the first element moves to 10,001 plus and minus 1 and the bit to once in 5,000.


def sample(i, offset, period):
    return jnp.stack([offset + jnp.where(i % 2 == 0, -1, 1), jnp.where(i % period == 0, 1, 0)]).astype(jnp.float32)


def turns(step, state, n, offset, period):
    def turn(k, state):
        for j in range(UNROLLED):
            state = step(state, sample(k * UNROLLED + j, offset, period))
        return state

    return jax.lax.fori_loop(0, n // UNROLLED, turn, state)


@jax.jit
def include_many(moments, n, offset, period):
    return turns(include, moments, n, offset, period)


def plain(state, x):
    """Welford in one float32 each: what freezes."""
    count, mean, squares = state
    before = x - mean
    mean = mean + before / (count + 1).astype(jnp.float32)
    return count + 1, mean, squares + before * (x - mean)


@jax.jit
def plain_many(state, n, offset, period):
    return turns(plain, state, n, offset, period)


def closed_form(n, offset, period):
    """Count, mean and squared deviations of each element after n samples, n a multiple of 2 * period."""
    ones = Fraction(1, period)
    return [(n, Fraction(offset), Fraction(n)), (n, ones, n * ones * (1 - ones))]


def joined(first, second):
    """Both streams as one (Chan et al.)."""
    (n, mean_n, squares_n), (m, mean_m, squares_m) = first, second
    apart = mean_m - mean_n
    return n + m, (n * mean_n + m * mean_m) / (n + m), squares_n + squares_m + apart**2 * Fraction(n * m, n + m)


def moments_of(exact):
    means, squares = ([split(float(e[i])) for e in exact] for i in (1, 2))
    columns = [np.array([pair[k] for pair in pairs], np.float32) for pairs in (means, squares) for k in (0, 1)]
    return Moments(jnp.int32(exact[0][0]), *(jnp.asarray(c) for c in columns))


FULL, MORE = 100_000_000, 5_000_000
BEFORE = closed_form(FULL, 10_000, 10_000)
EXACT = [joined(a, b) for a, b in zip(BEFORE, closed_form(MORE, 10_001, 5_000), strict=True)]


def assert_exact(moments, exact, rel_mean, rel_squares):
    assert int(moments.count) == exact[0][0]
    assert mean_of(moments) == pytest.approx([float(e[1]) for e in exact], rel=rel_mean)
    assert squares_of(moments) == pytest.approx([float(e[2]) for e in exact], rel=rel_squares)


def moved(mean):
    """How far the means have gone of what they should have gone."""
    return (np.asarray(mean, np.float64) - [float(b[1]) for b in BEFORE]) / [
        float(e[1] - b[1]) for e, b in zip(EXACT, BEFORE, strict=True)
    ]


def test_the_scales_still_follow_a_change_after_a_hundred_million_samples():
    """The mean of the first element moves by 1/21 in ten thousand; its variance grows by 20/441."""
    moments = include_many(moments_of(BEFORE), MORE, 10_001, 5_000)
    assert_exact(moments, EXACT, 1e-9, 1e-6)
    assert moved(mean_of(moments)) == pytest.approx([1, 1], rel=1e-3)
    wanted = [float(e[2] / (e[0] - 1)) for e in EXACT]
    assert variance(moments, jnp) == pytest.approx(wanted, rel=1e-6)


def test_one_float32_for_each_statistic_fails_the_same_test():
    start = moments_of(BEFORE)
    _, mean, squares = plain_many((start.count, start.mean, start.squares), MORE, 10_001, 5_000)
    assert moved(mean)[0] == 0
    assert float(squares[0]) != pytest.approx(float(EXACT[0][2]), rel=1e-3)


@pytest.mark.long
def test_a_hundred_million_samples_from_nothing_are_exact_and_a_change_is_followed():
    moments = include_many(empty_moments((2,), jnp), FULL, 10_000, 10_000)
    assert_exact(moments, BEFORE, 1e-10, 1e-6)
    moments = include_many(moments, MORE, 10_001, 5_000)
    assert_exact(moments, EXACT, 1e-9, 1e-6)
    assert moved(mean_of(moments)) == pytest.approx([1, 1], rel=1e-2)
