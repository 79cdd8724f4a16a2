"""Thousands of runs: quickly, and in little memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.analysis.synthetic import store

CODE = """
import resource, sys, time
from pathlib import Path
import numpy as np
from headrace.analysis.artefacts import drawings, tables
from headrace.analysis.canvas import save
from headrace.analysis.records import find_runs
from headrace.analysis.scores import groups

start, rng = time.process_time(), np.random.default_rng(0)
found = groups(find_runs(sys.argv[1]).records)
print("read", round(time.process_time() - start, 1))
for table in tables(found, rng):
    table.write(Path(sys.argv[2]))
print("tables", round(time.process_time() - start, 1))
for drawn in drawings(found, rng):
    save(drawn.figure, Path(sys.argv[2]), drawn.name)
print("figures", round(time.process_time() - start, 1))
print(sum(len(group.records) for group in found), time.process_time() - start,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.long
def test_two_thousand_runs_become_tables_and_figures_within_a_minute_and_a_gigabyte(tmp_path):
    """CPU seconds of one core, so that a busy machine does not decide."""
    runs = tmp_path / "runs"
    store(runs, seeds=range(36), rows=5000)
    store(runs, agents=("qrc+spr", "qrc+spr+every5", "qrc+curl", "qrc"), seeds=range(19), steps=1e6, rows=1000)
    words = [sys.executable, "-c", CODE, str(runs), str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    count, seconds, megabytes = map(float, done.stdout.splitlines()[-1].split())
    assert count == 2000
    assert seconds < 60, done.stdout
    assert megabytes < 1000, done.stdout
