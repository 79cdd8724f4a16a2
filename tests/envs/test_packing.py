"""Values through JSON and back, with their types."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum

import numpy as np
import pytest

from headrace.envs.packing import pack, unpack


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1,
        float("inf"),
        "words",
        [1, [2.5, None]],
        (1, (2, "x")),
        {"a": 1, 2: [3], (0, 1): "pair"},
        np.float32(0.1),
        np.int64(-7),
        np.bool_(True),
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.zeros((0, 4), np.float64),
        np.array(2.5),
        np.array([np.nan, -0.0]),
    ],
    ids=repr,
)
def test_a_value_comes_back_with_its_type(value: object) -> None:
    found = unpack(json.loads(json.dumps(pack(value))))
    assert type(found) is type(value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize("random", [np.random.RandomState(3), np.random.default_rng(3)])
def test_random_numbers_go_on_where_they_were(random: np.random.RandomState | np.random.Generator) -> None:
    random.normal(size=5)
    copy = unpack(json.loads(json.dumps(pack(random))))
    assert type(copy) is type(random)
    np.testing.assert_array_equal(copy.normal(size=9), random.normal(size=9))


def test_what_is_written_into_a_restored_array_stays_there() -> None:
    restored = unpack(pack(np.zeros(3)))
    restored[1] = 5
    assert restored.tolist() == [0, 5, 0]


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize("value", [object(), OrderedDict(a=1), Colour.RED, {1}, np.array([object()]), len])
def test_what_would_come_back_as_something_else_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot save a"):
        pack(value)
