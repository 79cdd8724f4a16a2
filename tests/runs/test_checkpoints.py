"""A checkpoint file comes back as it was, or is refused."""

from __future__ import annotations

import numpy as np

from headrace.errors import (
    CheckpointDamaged,
)
from headrace.runs import checkpoints


def test_a_digest_depends_on_names_types_shapes_bytes_and_episodes():
    base = {"a": np.zeros(4, np.float32), "b": np.ones(2, np.int32)}
    same = checkpoints.digest(dict(reversed(base.items())), b"rows")
    others = [
        checkpoints.digest({**base, "a": np.zeros((2, 2), np.float32)}, b"rows"),
        checkpoints.digest({**base, "a": np.zeros(4, np.int32)}, b"rows"),
        checkpoints.digest({**base, "a": -np.zeros(4, np.float32)}, b"rows"),
        checkpoints.digest({"A": base["a"], "b": base["b"]}, b"rows"),
        checkpoints.digest(base, b"rowS"),
    ]
    assert checkpoints.digest(base, b"rows") == same
    assert len({same, *others}) == 6


def test_any_flipped_bit_is_noticed_or_harmless(tmp_path):
    saved = checkpoints.Saved(checkpoints.Checkpoint(7, {"w": np.arange(3.0)}, {"a": [1, "é"]}), {})
    whole = checkpoints.encode("run", saved)
    refused = 0
    for position in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        try:
            found = checkpoints.decode(bytes(flipped), "run")
        except CheckpointDamaged:
            refused += 1
        else:
            assert found.checkpoint.state == {"a": [1, "é"]}
            assert found.checkpoint.arrays["w"].tolist() == [0, 1, 2]
    assert refused >= 0.99 * 8 * len(whole)
