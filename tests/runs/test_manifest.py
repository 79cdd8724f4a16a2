"""Who made a run can be told from its manifest."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from headrace.agents import name_of
from headrace.analysis.records import agent_label, env_labels
from headrace.errors import HeadraceError
from headrace.runs import manifest, strict_json
from headrace.training.run import make_run, run_of
from tests.runs.hostile import harmed


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


# Manifests that nobody should write


def good() -> dict:
    """A manifest with every known field."""
    run = make_run("qrc+spr", "minatar/breakout", engine="learner", form="host", settings=["aux.weight=0.5"])
    more = {
        "agent": "qrc+spr aux.weight=0.5", "machine": {"cpu": "a CPU", "cores": 2, "jax": None}, "commit": None,
        "digest": "0" * 64, "seconds": 1.5, "streams": 2, "parameters": 7, "peak_memory_mb": 87.2, "cause": "none",
        "diverged": {"quantity": "q", "step": 7}, "exact": False, "breaks": [{"step": 3, "why": "it fell"}],
        "tables": {"metrics.csv": {"bytes": 3, "sha256": "0" * 64}},
    }  # fmt: skip
    facts = {**manifest.new_manifest(run.identity(), more), "status": "finished", "end": manifest.now()}
    return {**facts, "resumed": [{"step": 3, "time": manifest.now()}]}


def test_a_good_manifest_is_read_as_it_was_written():
    assert manifest.FIELDS.keys() <= good().keys()
    assert manifest.decode(manifest.encode(good())) == good()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("seconds", "1e400", "a number in it is too large"),
        ("seconds", "-1", "seconds must be a number from 0 to 1e12, got -1"),
        ("seconds", "NaN", "NaN is no number of JSON"),
        ("agent", f'"{"x" * 2**20}"', "agent must be text of at most 500 letters, got 'xxx"),
        ("commit", "[" * 50_000 + "]" * 50_000, "it is nested more than 64 deep"),
        ("commit", "[" * 70 + "]" * 70, "it is nested more than 64 deep"),
        ("status", '"asleep"', "status must be one of running, finished"),
        ("identity", "[]", "identity must be a mapping"),
    ],
)
def test_a_bad_field_is_named(name, text, why):
    data = json.dumps({**good(), name: "MARK"}).replace('"MARK"', text).encode()
    with pytest.raises(ValueError, match=why) as error:
        manifest.decode(data)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("name", "text"), [("steps", "1e400"), ("steps", "1e30"), ("steps", "Infinity"), ("seed", '"0"'), ("env", "{}")]
)
def test_a_bad_identity_is_refused(name, text):
    facts = good()
    facts["identity"][name] = "MARK"
    with pytest.raises(ValueError, match=r"number|identity\.env must be a name, rules and a form"):
        manifest.decode(json.dumps(facts).replace('"MARK"', text).encode())


def test_a_lone_surrogate_becomes_a_question_mark():
    facts = good()
    facts["identity"]["env"]["name"] = "minatar/\ud800"
    assert manifest.decode(json.dumps(facts).encode())["identity"]["env"]["name"] == "minatar/?"


def test_what_is_written_for_programs_is_json():
    told = strict_json.dumps({"a": float("nan"), "b": [np.float64("inf"), (1.5, None)], "c": np.float32(0.5)})
    assert json.loads(told) == {"a": None, "b": [None, [1.5, None]], "c": 0.5}


def survive(count: int) -> int:
    """Reads so many harmed manifests; of how many a reader goes on."""
    rng, known, accepted = random.Random(0), good(), 0
    for _ in range(count):
        try:
            facts = manifest.decode(harmed(known, rng))
        except ValueError:
            continue
        accepted += 1
        manifest.why_ended(facts), manifest.why_not_exact(facts), str(facts).encode()
        json.dumps(facts, allow_nan=False)
        with suppress(ValueError):
            manifest.require_run(facts["identity"])
            env_labels(facts["identity"]["env"])[0].encode()
            agent_label(facts["identity"]["agent"], facts.get("agent", "unknown")).encode()
        try:
            name_of(run_of(facts["identity"]).agent)
        except HeadraceError as error:
            str(error).encode()
    return accepted


def test_a_harmed_manifest_is_refused_or_read():
    assert 200 < survive(2_000) < 1_800


@pytest.mark.long
def test_a_hundred_thousand_harmed_manifests_are_refused_or_read():
    assert survive(100_000) > 10_000
