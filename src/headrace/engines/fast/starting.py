"""Parameters and keys at the start of a stream, equal to the reference engine's for the same seed."""

from __future__ import annotations

from math import prod

import numpy as np

from headrace.engines.fast.frame import Frame
from headrace.engines.fast.machine import fill_uniform, hashed

FIRST_PARAMETERS = 2**31 - 1  # what is folded into the seed's key for them


def key_of(seed: int) -> tuple[int, int]:
    return seed >> 32, seed & 0xFFFFFFFF


def start_parameters(frame: Frame, f: np.ndarray, seed: int) -> None:
    """Sparse initialisation: U(-1/sqrt(fan_in), 1/sqrt(fan_in)), of which a tenth is kept; biases zero."""
    key = hashed(*key_of(seed), 0, FIRST_PARAMETERS)
    layers = [layer for block in frame.params.values() for layer in block.layers]
    total = sum(prod(layer.shapes["w"]) for layer in layers)
    values, order = (np.empty(total, np.float32) for _ in range(2))
    fill_uniform(*hashed(*key, 0, 0), values)
    fill_uniform(*hashed(*key, 0, 1), order)
    start = 0
    for layer in layers:
        shape = layer.shapes["w"]
        part = slice(start, start := start + prod(shape))
        f[layer.w : layer.w + prod(shape)] = sparse(values[part], order[part], shape)
        if "b" in layer.shapes:
            f[layer.b : layer.b + prod(layer.shapes["b"])] = 0


def sparse(values: np.ndarray, order: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """For each output unit ceil(0.9 fan_in) inputs, chosen by the order of random numbers, are zero; one is left."""
    fan_in, outputs = prod(shape[:-1]), shape[-1]
    weights = (2 * values.reshape(fan_in, outputs) - 1) * np.float32(fan_in**-0.5)
    place = np.argsort(order.reshape(fan_in, outputs), axis=0, kind="stable")
    weights[place < min(-(-9 * fan_in // 10), fan_in - 1)] = 0
    return weights.reshape(-1)
