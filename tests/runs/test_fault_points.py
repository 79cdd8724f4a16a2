"""Whatever call to the disk a run is stopped at, or fails at, the same command ends it as if nothing had been."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("which", ["some", pytest.param("all", marks=pytest.mark.long)])
def test_a_fault_at_any_call_changes_no_result(tmp_path, which):
    command = [sys.executable, "-m", "tests.runs.fault_points", str(tmp_path / "points"), which]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *wrong, last = done.stdout.splitlines()
    print(last)
    assert wrong == []
    assert int(re.match(r"(\d+) points", last)[1]) > {"some": 30, "all": 1000}[which]
