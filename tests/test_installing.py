"""Installing compiles the learner where there is a C compiler, and goes on where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not find_spec("setuptools"), reason="no setuptools")
@pytest.mark.skipif(sys.platform == "win32", reason="its compiler is not named by CC")
def test_a_package_without_a_c_compiler_is_built_all_the_same(tmp_path: Path) -> None:
    """Without the learner; that this is said when it is used, `test_bare` and `test_without_jax` try."""
    learner = Path("src/headrace/learner")
    shutil.copytree(ROOT / learner, tmp_path / learner, ignore=shutil.ignore_patterns("_learner.*"))
    shutil.copy(ROOT / "setup.py", tmp_path)  # and no pyproject.toml, which only a recent setuptools reads
    build = [sys.executable, "setup.py", "build_ext", "--build-lib", "built"]
    done = subprocess.run(build, cwd=tmp_path, env={**os.environ, "CC": "false"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "_learner" in done.stderr, "it warns"
    assert not list((tmp_path / "built").rglob("_learner*"))
