"""The safetensors format with NumPy alone.

A file is an 8-byte little-endian length, a JSON header of that length (name -> dtype, shape, data_offsets, and texts
under ``__metadata__``), and the arrays' bytes without gaps. See https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import CheckpointDamaged

METADATA = "__metadata__"
PREFIX = 8  # bytes of the header's length, and the alignment of what follows the header
DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype("?"),
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


class Entry(NamedTuple):
    """Where one array lies in the data that follows the header."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def dumps(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The same bytes for the same arrays and texts, whatever their order; every array aligned to its own item size."""
    return b"".join(pieces(arrays, metadata))


def pieces(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """What `dumps` joins, the arrays among it without a copy."""
    little = {name: _little_endian(name, array) for name, array in arrays.items()}
    names = sorted(little, key=lambda name: (-little[name].itemsize, name))
    header: dict[str, Any] = {METADATA: _checked_texts(metadata)} if metadata else {}
    chunks: list[memoryview] = []
    end = 0
    for name in names:
        array = little[name]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": CODES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        chunks.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % PREFIX)
    return [len(text).to_bytes(PREFIX, "little"), text, *chunks]


def loads(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays (writable copies) and texts that `dumps` wrote; CheckpointDamaged for anything malformed."""
    text, start = _header_text(data)
    header = _parse(text)
    metadata = _texts(header.pop(METADATA, {}))
    entries = sorted(
        (_entry(name, facts) for name, facts in header.items()), key=lambda entry: (entry.begin, entry.end)
    )
    _require_no_gaps(entries, len(data) - start)
    return {entry.name: _array(entry, data, start) for entry in entries}, metadata


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    if not isinstance(name, str) or name == METADATA:
        raise ValueError(f"{name!r} cannot be the name of an array")
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    if dtype not in CODES:
        raise TypeError(f"array {name!r} has dtype {array.dtype}; only bool, integers and floats can be stored")
    return array.astype(dtype, copy=False)


def _checked_texts(metadata: Mapping[str, str]) -> dict[str, str]:
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"metadata must map texts to texts, got {key!r}: {value!r}")
    return dict(sorted(metadata.items()))


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise CheckpointDamaged(reason)


def _header_text(data: bytes) -> tuple[bytes, int]:
    _require(len(data) >= PREFIX, f"truncated: {len(data)} bytes are fewer than the {PREFIX} of the header's length")
    length = int.from_bytes(data[:PREFIX], "little")
    _require(length <= len(data) - PREFIX, f"the header claims {length} bytes, {len(data) - PREFIX} follow: truncated")
    text = data[PREFIX : PREFIX + length]
    _require(text.startswith(b"{"), "the header does not begin with '{'")
    return text, PREFIX + length


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise CheckpointDamaged(f"the header is not JSON: {error}") from error
    return header


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    _require(len(found) == len(pairs), "the header names something twice")
    return found


def _texts(metadata: Any) -> dict[str, str]:
    _require(isinstance(metadata, dict), "the metadata is not an object")
    _require(all(isinstance(value, str) for value in metadata.values()), "a value of the metadata is not a text")
    return metadata


def _entry(name: str, facts: Any) -> Entry:
    _require(isinstance(facts, dict), f"array {name!r}: its entry is not an object")
    _require(set(facts) == {"dtype", "shape", "data_offsets"}, f"array {name!r}: its entry has fields {sorted(facts)}")
    code, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    _require(isinstance(code, str) and code in DTYPES, f"array {name!r}: unknown dtype {code!r}")
    _require(_are_sizes(shape), f"array {name!r}: {shape!r} is not a shape")
    _require(_are_sizes(offsets) and len(offsets) == 2, f"array {name!r}: {offsets!r} are not offsets")
    begin, end = offsets
    needed = math.prod(shape) * DTYPES[code].itemsize
    _require(end - begin == needed, f"array {name!r}: offsets {offsets} hold {end - begin} bytes, its shape {needed}")
    return Entry(name, DTYPES[code], tuple(shape), begin, end)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**63 for value in values)


def _require_no_gaps(entries: list[Entry], size: int) -> None:
    position = 0
    for entry in entries:
        _require(entry.begin == position, f"array {entry.name!r} begins at {entry.begin}, not at {position}")
        position = entry.end
    _require(position == size, f"the arrays take {position} bytes, {size} follow the header")


def _array(entry: Entry, data: bytes, start: int) -> np.ndarray:
    count = (entry.end - entry.begin) // entry.dtype.itemsize
    try:
        flat = np.frombuffer(data, np.uint8 if entry.dtype == bool else entry.dtype, count, start + entry.begin)
        shaped = flat.reshape(entry.shape)
    except (ValueError, OverflowError) as error:
        raise CheckpointDamaged(f"array {entry.name!r} cannot have shape {entry.shape}: {error}") from error
    if entry.dtype == bool:
        _require(bool((flat <= 1).all()), f"array {entry.name!r} is bool and holds other bytes than 0 and 1")
    return shaped.astype(entry.dtype.newbyteorder("="))
