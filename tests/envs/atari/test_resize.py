"""Shrinking by area, against the definition worked out in exact fractions and against OpenCV."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from headrace.envs.atari.pixels import Shrink, covers

HEIGHTS = [210, 214, 220, 230, 250]  # of all screens that the games have


def covered(length: int, to: int, i: int, j: int) -> Fraction:
    """How much of old pixel i lies in new pixel j, as a share of the new one."""
    step = Fraction(length, to)
    return max(Fraction(0), min(Fraction(i + 1), (j + 1) * step) - max(Fraction(i), j * step)) / step


def shrunk(image: np.ndarray) -> np.ndarray:
    return Shrink(image.shape, (84, 84))(image, np.ones(len(image), bool))


def test_by_hand() -> None:
    """Five pixels make two: the middle one is shared."""
    first, shares = covers(5, 2)
    np.testing.assert_array_equal(first, [0, 1])
    np.testing.assert_array_equal(shares.T, [[2, 2, 1, 0], [0, 1, 2, 2]])
    shrink = Shrink((5, 1), (2, 1))
    column = np.array([[10], [20], [35], [0], [255]], np.uint8)
    np.testing.assert_array_equal(shrink(column, np.ones(5, bool)), [[19], [109]])  # (20+40+35) / 5, (35+0+510) / 5


def test_only_what_covers_a_changed_row_is_made_anew_and_earlier_results_stay() -> None:
    shrink = Shrink((10, 1), (4, 1))
    first = shrink(np.zeros((10, 1), np.uint8), np.ones(10, bool))
    for row, made in ((0, [1, 0, 0, 0]), (2, [1, 1, 0, 0]), (4, [0, 1, 0, 0]), (7, [0, 0, 1, 1]), (9, [0, 0, 0, 1])):
        seen = Shrink((10, 1), (4, 1))(np.full((10, 1), 100, np.uint8), np.arange(10) == row)
        assert (seen[:, 0] == 100 * np.array(made)).all()
    second = shrink(np.full((10, 1), 9, np.uint8), np.ones(10, bool))
    assert (int(first.max()), int(second.min())) == (0, 9)


@pytest.mark.parametrize("height", HEIGHTS)
def test_every_pixel_is_the_mean_of_what_it_covers(height: int) -> None:
    image = np.random.default_rng(height).integers(0, 256, (height, 160), dtype=np.uint8)
    small = shrunk(image)
    for y, x in ((0, 0), (83, 83), (41, 13), (7, 60), (50, 2)):
        rows = [(i, covered(height, 84, i, y)) for i in range(height) if covered(height, 84, i, y)]
        columns = [(i, covered(160, 84, i, x)) for i in range(160) if covered(160, 84, i, x)]
        assert sum(share for _, share in rows) == 1
        mean = sum(a * b * int(image[i, j]) for i, a in rows for j, b in columns)
        assert small[y, x] == round(mean)  # halves to the even one, as here


@pytest.mark.parametrize("height", HEIGHTS)
def test_it_is_opencvs_area_interpolation_but_for_halves(height: int) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV only serves to compare with")
    image = np.random.default_rng(0).integers(0, 256, (height, 160), dtype=np.uint8)
    mine = shrunk(image).astype(int)
    theirs = cv2.resize(image, (84, 84), interpolation=cv2.INTER_AREA).astype(int)
    assert np.abs(mine - theirs).max() <= 1
    assert (mine != theirs).mean() < 0.002


def test_a_flat_image_stays_flat() -> None:
    for grey in (0, 1, 127, 255):
        assert (shrunk(np.full((210, 160), grey, np.uint8)) == grey).all()
