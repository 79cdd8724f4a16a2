"""A workbench for single instructions."""

from __future__ import annotations

import numpy as np

from headrace.engines.fast import machine
from headrace.engines.fast.memory import Memory, Program


class Bench:
    """Arrays by name in a machine's memory, and instructions on them."""

    def __init__(self, seed=0):
        self.memory, self.program, self.random, self.at, self.first = (
            Memory(), Program(), np.random.default_rng(seed), {}, {}
        )  # fmt: skip

    def array(self, name, *shape, values=None):
        self.first[name] = self.random.normal(size=shape).astype("f") if values is None else np.asarray(values, "f")
        self.at[name] = self.memory.room(int(np.prod(self.first[name].shape)))
        return self.first[name].astype(np.float64)

    def run(self):
        self.f, self.s, self.n = self.memory.allocate()
        for name, values in self.first.items():
            self.f[self.at[name] : self.at[name] + values.size] = values.ravel()
        machine.carry_out(self.program.rows(), self.f, self.s, self.n, np.zeros(0, np.int64))
        return self

    def __getitem__(self, name):
        values = self.first[name]
        return self.f[self.at[name] : self.at[name] + values.size].reshape(values.shape)


def close(got, wanted, atol=2e-6):
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=atol)
