"""The machine itself: operands reach their instructions, products and folds are what they should be."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest

from headrace.engines.fast import machine
from headrace.engines.fast.kernels import layers
from headrace.engines.fast.memory import Memory, Program


def test_every_instruction_gets_its_operands_in_their_order():
    """`carry_out` hands out a[1], a[2], ... by hand: a slip there would be a silent error."""
    source = ast.parse(inspect.getsource(machine.carry_out.py_func))
    calls = {node.func.id: node for node in ast.walk(source) if isinstance(node, ast.Call) and hasattr(node.func, "id")}
    for instruction in machine.INSTRUCTIONS:
        names = list(inspect.signature(instruction.py_func).parameters)
        places = [name for name in names if name not in ("f", "s", "n")]
        wanted = [n for n in names if n in ("f", "s", "n")] + [f"a[{i}]" for i in range(1, len(places) + 1)]
        assert [ast.unparse(arg) for arg in calls[instruction.__name__].args] == wanted
        assert len(places) < machine.WIDTH
    codes = [machine.CODES[i] for i in machine.INSTRUCTIONS]
    assert codes == [getattr(machine, i.__name__.upper()) for i in machine.INSTRUCTIONS]


def carried_out(program, memory, **arrays):
    f, s, n = memory.allocate()
    for at, values in arrays.values():
        f[at : at + values.size] = values.ravel()
    machine.carry_out(program.rows(), f, s, n, np.zeros(0, np.int64))
    return f


@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize("columns", [3, 16, 37])
@pytest.mark.parametrize("turned", [0, 1])
def test_a_product_of_any_size(rows, columns, turned):
    random, inner = np.random.default_rng(0), 11
    a, b = random.normal(size=(rows, inner)).astype("f"), random.normal(size=(inner, columns)).astype("f")
    memory, program = Memory(), Program()
    at, bt, ct = memory.room(a.size), memory.room(b.size), memory.room(rows * columns)
    program.emit(layers.product, a=at, b=bt, c=ct, rows=rows, columns=columns, inner=inner, turn_a=turned)
    f = carried_out(program, memory, a=(at, a.T.copy() if turned else a), b=(bt, b))
    np.testing.assert_allclose(f[ct : ct + rows * columns].reshape(rows, columns), a @ b, rtol=1e-4, atol=1e-5)


def test_a_fold_is_the_transpose_of_taking_windows():
    """<fold(d), x> = <d, windows(x)> for every d and x."""
    random, shape, kernel, stride = np.random.default_rng(0), (7, 8, 3), (3, 2), (2, 1)
    rows, columns = (7 - 3) // 2 + 1, 8 - 2 + 1
    size, window = int(np.prod(shape)), 3 * 2 * 3
    x, d = random.normal(size=size).astype("f"), random.normal(size=rows * columns * window).astype("f")
    memory, program = Memory(), Program()
    xt, wt, dt, ot = memory.room(size), memory.room(d.size), memory.room(d.size), memory.room(size)
    common = {
        "width": 8, "channels": 3, "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": stride[0],
        "stride_w": stride[1], "rows": rows, "columns": columns,
    }  # fmt: skip
    program.emit(layers.patches, x=xt, out=wt, **common)
    program.emit(layers.fold, d=dt, step=window, out=ot, height=7, **common)
    f = carried_out(program, memory, x=(xt, x), d=(dt, d))
    assert f[ot : ot + size] @ x == pytest.approx(f[wt : wt + d.size] @ d, rel=1e-5)
