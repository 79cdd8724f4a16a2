"""Python values as JSON can hold them, and back again with their types: what a saved environment is made of."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import numpy as np


def pack(value: Any) -> Any:
    """`value` as JSON can hold it; what JSON has no form for becomes a dict that names its kind."""
    match value:
        case None | bool() | int() | float() | str() if type(value) in (type(None), bool, int, float, str):
            return value
        case np.ndarray() | np.generic() if value.dtype.kind in "biufS":
            data = b64encode(value.tobytes()).decode()
            return {"kind": "numpy", "dtype": value.dtype.str, "shape": packed_shape(value), "data": data}
        case np.random.RandomState():
            return {"kind": "random state", "state": [pack(part) for part in value.get_state(legacy=True)]}
        case np.random.Generator():
            return {"kind": "generator", "state": pack(value.bit_generator.state)}
        case dict() if type(value) is dict:
            return {"kind": "dict", "items": [[pack(key), pack(item)] for key, item in value.items()]}
        case list() if type(value) is list:
            return [pack(item) for item in value]
        case tuple() if type(value) is tuple:
            return {"kind": "tuple", "items": [pack(item) for item in value]}
    raise TypeError(f"cannot save a {type(value).__name__}: {value!r:.80}")


def packed_shape(value: np.ndarray | np.generic) -> list[int] | None:
    """None for a number that is no array."""
    return list(value.shape) if isinstance(value, np.ndarray) else None


def unpack(packed: Any) -> Any:
    match packed:
        case {"kind": "numpy", "dtype": dtype, "shape": shape, "data": data}:
            array = np.frombuffer(b64decode(data), dtype=dtype).copy()
            return array[0] if shape is None else array.reshape(shape)
        case {"kind": "random state", "state": state}:
            random = np.random.RandomState()
            random.set_state(tuple(unpack(part) for part in state))
            return random
        case {"kind": "generator", "state": state}:
            unpacked = unpack(state)
            bits = getattr(np.random, unpacked["bit_generator"])()
            bits.state = unpacked
            return np.random.Generator(bits)
        case {"kind": "dict", "items": items}:
            return {unpack(key): unpack(item) for key, item in items}
        case {"kind": "tuple", "items": items}:
            return tuple(unpack(item) for item in items)
        case list():
            return [unpack(item) for item in packed]
    return packed
