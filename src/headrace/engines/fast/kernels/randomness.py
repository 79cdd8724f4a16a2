"""JAX's counter-based random numbers (threefry2x32, partitionable), so that both engines draw the same."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast.compiling import exact
from headrace.engines.fast.native import part

WORD = np.uint64(0xFFFFFFFF)
PARITY = np.uint64(0x1BD11BDA)
STEP = np.float32(2.0**-23)
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@exact
def rotated(x, by):
    return ((x << np.uint64(by)) | (x >> np.uint64(32 - by))) & WORD


@exact
def threefry(key0, key1, x0, x1):
    """Twenty rounds over a counter of two words (Salmon et al. 2011); all words are uint64 below 2^32."""
    keys = (key0, key1, key0 ^ key1 ^ PARITY)
    x0, x1 = (x0 + key0) & WORD, (x1 + key1) & WORD
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x0 = (x0 + x1) & WORD
            x1 = rotated(x1, turn) ^ x0
        x0 = (x0 + keys[(group + 1) % 3]) & WORD
        x1 = (x1 + keys[(group + 2) % 3] + np.uint64(group + 1)) & WORD
    return x0, x1


@exact
def uniform(key0, key1, out):
    """Uniform numbers in [0, 1) with 23 random bits each, as `jax.random.uniform` gives them for this key."""
    for i in range(out.size):
        a, b = threefry(key0, key1, np.uint64(i >> 32), np.uint64(i) & WORD)
        out[i] = np.float32((a ^ b) >> np.uint64(9)) * STEP


@exact
def draw(f, n, seed, step, out, count):
    """All uniform numbers of a step: fold the step into the seed's key, split, draw from the first half."""
    a, b = threefry(np.uint64(n[seed]), np.uint64(n[seed + 1]), np.uint64(0), np.uint64(n[step]))
    a, b = threefry(a, b, np.uint64(0), np.uint64(0))
    uniform(a, b, part(f, out, count))
