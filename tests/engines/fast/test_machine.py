"""The machine itself: operands reach their instructions, code is kept."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys

from headrace.engines.fast import compiling, machine


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


def test_compiled_code_is_kept_and_found_again(tmp_path):
    """In two processes one after the other; a small function stands for the engine's, which take long."""
    code = (
        "from headrace.engines.fast.compiling import entry\n"
        "from headrace.engines.fast.machine import hashed\n"
        "hashed(1, 2, 3, 4)\n"
        "print(sum(hashed.stats.cache_hits.values()), sum(hashed.stats.cache_misses.values()))"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert said == [["0", "1"], ["1", "0"]]


def test_where_nothing_can_be_written_code_is_compiled_anew(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    compiling.cache_folder.cache_clear()
    try:
        assert compiling.cache_folder() is None
        assert compiling.entry(lambda x: x + 1)(1) == 2
    finally:
        compiling.cache_folder.cache_clear()
