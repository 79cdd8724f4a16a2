"""The machine itself: operands reach their instructions."""

from __future__ import annotations

import ast
import inspect

from headrace.engines.fast import machine


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
