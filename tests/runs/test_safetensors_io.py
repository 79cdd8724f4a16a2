"""Our safetensors files are everybody's safetensors files, and no malformed one gets through."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy

from headrace.errors import CheckpointDamaged
from headrace.runs.safetensors_io import DTYPES, dumps, loads

RANDOM = np.random.default_rng(0)


def filled(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Random bits, so that NaN payloads, infinities and denormals are among the floats."""
    if dtype.kind == "b":
        return RANDOM.integers(0, 2, shape).astype(bool)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(RANDOM.bytes(size), dtype).reshape(shape)


EVERYTHING = {
    f"{code}/{shape}": filled(dtype, shape)
    for code, dtype in DTYPES.items()
    for shape in [(), (0,), (3,), (2, 0), (2, 3)]
}
SMALL = {"a": np.arange(3, dtype=np.int16), "b": np.array(2.5), "flag": np.array([True, False])}


def assert_same(left: dict, right: dict) -> None:
    assert left.keys() == right.keys()
    for name in left:
        ours, theirs = np.asarray(left[name]), np.asarray(right[name])
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes()), name


def file_of(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str = "U8", shape: object = (2,), offsets: object = (0, 2)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_every_type_and_shape_comes_back_to_the_bit():
    arrays, metadata = loads(dumps(EVERYTHING, {"text": 'é "quoted" \n {}'}))
    assert_same(arrays, EVERYTHING)
    assert metadata == {"text": 'é "quoted" \n {}'}
    assert all(array.flags.writeable for array in arrays.values())


def test_the_real_package_reads_ours():
    assert_same(safetensors.numpy.load(dumps(EVERYTHING, {"k": "v"})), EVERYTHING)


def test_we_read_the_real_packages():
    arrays, metadata = loads(safetensors.numpy.save({k: np.array(v) for k, v in EVERYTHING.items()}, {"k": "v"}))
    assert_same(arrays, EVERYTHING)
    assert metadata == {"k": "v"}


def test_bytes_do_not_depend_on_order_or_memory_layout():
    backwards = dict(reversed(SMALL.items()))
    assert dumps(SMALL, {"x": "1", "y": "2"}) == dumps(backwards, {"y": "2", "x": "1"})
    grid = np.arange(6.0).reshape(2, 3)
    assert dumps({"g": np.asfortranarray(grid)}, {}) == dumps({"g": grid}, {}) == dumps({"g": grid.astype(">f8")}, {})


def test_the_header_is_a_multiple_of_eight_and_arrays_are_aligned():
    data = dumps(EVERYTHING, {})
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    for name, facts in json.loads(data[8 : 8 + length]).items():
        assert facts["data_offsets"][0] % DTYPES[facts["dtype"]].itemsize == 0, name


def test_nothing_is_a_file_too():
    assert loads(dumps({}, {})) == ({}, {})


@pytest.mark.parametrize("array", [np.array([1j]), np.array(["text"]), np.array([None]), np.zeros(2, "M8[s]")])
def test_what_cannot_be_stored_is_named(array):
    with pytest.raises(TypeError, match=r"array 'weights' has dtype"):
        dumps({"weights": array}, {})


def test_names_and_texts_are_checked():
    with pytest.raises(ValueError, match="__metadata__"):
        dumps({"__metadata__": np.zeros(1)}, {})
    with pytest.raises(TypeError, match="'step': 3"):
        dumps({}, {"step": 3})  # type: ignore[dict-item]


def test_truncation_at_every_length_is_noticed():
    whole = dumps(SMALL, {"k": "v"})
    for length in range(len(whole)):
        with pytest.raises(CheckpointDamaged):
            loads(whole[:length])
    with pytest.raises(CheckpointDamaged, match="follow the header"):
        loads(whole + b"\0")


def test_a_flipped_bit_raises_nothing_but_damage():
    whole = dumps(SMALL, {"k": "v"})
    refused = 0
    for position in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        try:
            loads(bytes(flipped))
        except CheckpointDamaged:
            refused += 1
    assert refused > 4 * len(whole)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff" * 8 + b"{}", "claims 18446744073709551615 bytes"),
        (file_of(b"[]"), "begin with"),
        (file_of(b"{nonsense"), "not JSON"),
        (file_of(b'{"\xff": 1}'), "not JSON"),
        (file_of(b'{"a":' * 100_000), "not JSON"),
        (file_of(b'{"a":' + b"9" * 10_000 + b"}"), "not JSON"),
        (file_of(b'{"a":{},"a":{}}'), "twice"),
        (file_of({"__metadata__": {"k": 1}}), "not a text"),
        (file_of({"__metadata__": []}), "not an object"),
        (file_of({"a": 3}), "not an object"),
        (file_of({"a": {"dtype": "U8"}}), "has fields"),
        (file_of({"a": entry("BF16")}, b"12"), "unknown dtype 'BF16'"),
        (file_of({"a": entry(["U8"])}, b"12"), "unknown dtype"),  # type: ignore[arg-type]
        (file_of({"a": entry(shape=[-2])}, b"12"), "not a shape"),
        (file_of({"a": entry(shape=[2.0])}, b"12"), "not a shape"),
        (file_of({"a": entry(shape=[True, 2])}, b"12"), "not a shape"),
        (file_of({"a": entry(offsets=[0, 2, 4])}, b"12"), "not offsets"),
        (file_of({"a": entry(offsets=[2, 0])}, b"12"), "hold -2 bytes"),
        (file_of({"a": entry(shape=[3])}, b"12"), "its shape 3"),
        (file_of({"a": entry(shape=[2**62], offsets=[0, 2**62])}, b"12"), "arrays take"),
        (file_of({"a": entry(shape=[0, 2**62, 2**62], offsets=[0, 0])}), "cannot have shape"),
        (file_of({"a": entry(shape=[1] * 100, offsets=[0, 1])}, b"1"), "cannot have shape"),
        (file_of({"a": entry(), "b": entry()}, b"12"), "begins at 0, not at 2"),
        (file_of({"a": entry(), "b": entry(offsets=[1, 3])}, b"123"), "begins at 1, not at 2"),
        (file_of({"a": entry(offsets=[1, 3])}, b"123"), "begins at 1, not at 0"),
        (file_of({"a": entry(offsets=[100, 102])}, b"12"), "begins at 100"),
        (file_of({"a": entry("BOOL")}, b"\x01\x02"), "other bytes than 0 and 1"),
    ],
)
def test_each_malformation_is_refused_with_its_reason(data, reason):
    with pytest.raises(CheckpointDamaged, match=reason):
        loads(data)
