"""Which engine is nearer the truth: both against the definition in double precision."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.long
@pytest.mark.parametrize("suite", ["vector", "minatar"])
@pytest.mark.parametrize("name", ["strq", "qrc"])
def test_the_fast_engine_is_about_as_near_the_truth_as_the_reference(name, suite):
    command = [sys.executable, "-m", "tests.engines.fast.truth", name, suite, "30"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert said["fast"]["median"] <= 3 * said["reference"]["median"], said
    assert said["fast"]["median"] < 1e-6, said
