"""Who made a run can be told from its manifest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from headrace.runs import manifest


def test_identities_are_equal_whatever_their_order():
    assert manifest.identity_hash({"a": 1, "b": [1, 2]}) == manifest.identity_hash({"b": (1, 2), "a": 1})
    assert manifest.identity_hash({"a": 1}) != manifest.identity_hash({"a": 2})
    assert manifest.differences({"a": float("nan"), "b": (1,)}, {"b": [1], "a": float("nan")}) == []


def test_a_run_that_is_not_exact_says_why():
    assert manifest.why_not_exact({}) == manifest.why_not_exact({"exact": True, "breaks": []}) == ""
    assert manifest.why_not_exact({"exact": False}) == "a new episode was begun where it was continued"
    one, other = {"step": 219, "why": "gym/Robot failed"}, {"step": 300, "why": "gym/Robot cannot be saved"}
    once = manifest.why_not_exact({"exact": False, "breaks": [one]})
    assert once == "gym/Robot failed, and a new episode was begun after step 219"
    thrice = manifest.why_not_exact({"exact": False, "breaks": [one, one, other]})
    assert thrice.startswith("gym/Robot cannot be saved, and a new episode was begun after step 300")
    assert thrice.endswith("(so it was at 2 earlier steps)")
    assert "a new episode" in manifest.why_not_exact({"exact": False, "breaks": ["what", {}, {"step": 1}]})


def test_machine_facts_are_plain_and_import_no_jax():
    script = (
        "import json, sys; from headrace.runs import folder, manifest; facts = manifest.machine_facts();"
        "assert 'jax' not in sys.modules; print(json.dumps(facts))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    facts = json.loads(told)
    assert facts["numpy"] == np.__version__
    assert facts["cores"] == os.cpu_count()
    assert facts["jax"] == version("jax")
    assert facts["cpu"]


def git(folder: Path, *arguments: str) -> str:
    """Without what a user has set, who may want commits signed, and whatever repository these tests are called in."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_is_the_sources_own(tmp_path):
    source, installed = tmp_path / "src", tmp_path / ".venv"
    assert manifest.commit(tmp_path / "nowhere") is None
    for folder in (source, installed):
        folder.mkdir()
        (folder / "errors.py").write_text("")
    assert manifest.commit(source) is None
    git(tmp_path, "init")
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-m", "first")
    assert manifest.commit(source) == git(tmp_path, "rev-parse", "HEAD")
    assert manifest.commit(installed) is None
    (source / "new.py").write_text("")
    assert manifest.commit(source) == git(tmp_path, "rev-parse", "HEAD") + "-dirty"
