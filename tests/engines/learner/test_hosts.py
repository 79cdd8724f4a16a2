"""The same learner from other compilers, for other processors and with narrower instructions."""

from __future__ import annotations

import subprocess
from shutil import which

import pytest

from headrace.agents import VARIANTS, BySuite, agent_named
from headrace.engines.learner import block
from headrace.engines.learner.engine import LearnerEngine
from headrace.learner import SOURCES
from tests.engines.learner.hosts import HOSTS, WARNINGS, Host, hosted, missing
from tests.engines.learner.parity import STEP_TOLERANCE, Found, compare_steps, other_metrics
from tests.engines.learner.support import IMAGE, SMALL, SUITES, experience, on, spec_of

TOLERANCE = 2 * STEP_TOLERANCE  # each may be as far from the definition, on its other side


def compare_learners(one, other, shape, steps):
    """Every array of every step, the other put into the state of the one before it."""
    first, answers = experience(shape, steps)
    found = Found()
    one.begin(first)
    other.begin(first)
    for t, answer in enumerate(answers):
        other.restore(one.save())
        one.learn(answer)
        other.learn(answer)
        got, wanted = other.save(), one.save()
        errors = found.errors(got, wanted)
        assert max(errors.values()) <= TOLERANCE, f"{max(errors, key=errors.get)} at step {t}: {errors}"
        assert not other_metrics(got, wanted)


@pytest.mark.parametrize(
    ("name", "suite", "box"),
    [
        ("strq+spr+orth2", "vector", False), ("qrc+spr+orth", "vector", False), ("qrc", "minatar", False),
        ("ac+spr+orth2", "vector", True),
    ],
)  # fmt: skip
def test_wide_instructions_and_those_that_every_processor_has_agree_to_rounding(name, suite, box, monkeypatch):
    if not block.widest():
        pytest.skip("this processor has no wider instructions")
    agent, spec = on(agent_named(name), BySuite()), spec_of(SUITES[suite], box=box)
    wide = LearnerEngine(agent, spec, seed=0, steps=100)
    monkeypatch.setattr(block, "functions", lambda: block.Functions(""))
    compare_learners(wide, LearnerEngine(agent, spec, seed=0, steps=100), spec.frame_shape, 40)


@pytest.mark.skipif(not which("cc"), reason="no C compiler")
@pytest.mark.parametrize(("name", "box"), [("qrc+spr+orth", False), ("ac+spr", True)])
def test_a_learner_in_another_program_does_the_same(name, box):
    agent, spec = on(agent_named(name), IMAGE), spec_of(SMALL[IMAGE], box=box)
    with hosted(Host("cc", flags=("-O1",))) as learner:
        compare_learners(
            LearnerEngine(agent, spec, seed=0, steps=100), learner(agent, spec, steps=100), SMALL[IMAGE], 30
        )


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_sources_compile_without_a_warning(compiler):
    if not which(compiler):
        pytest.skip(f"no {compiler}")
    sources = [str(path) for path in sorted(SOURCES.rglob("*.c"))]
    done = subprocess.run([compiler, *WARNINGS, "-fsyntax-only", *sources], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTS)
def test_minatars_part_of_the_parity_suite_passes_there(name, programs):
    if lack := missing(HOSTS[name]):
        pytest.skip(lack)
    with hosted(HOSTS[name]) as learner:
        for variant in VARIANTS:
            agent = on(agent_named(variant), BySuite())
            compare_steps(agent, spec_of(SUITES["minatar"]), 40, learner=learner)
