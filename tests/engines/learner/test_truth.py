"""Which engine is nearer the truth: both against the definition in double precision."""

from __future__ import annotations

import pytest

from headrace.agents import VARIANTS, BySuite, agent_named
from tests.engines.learner.parity import STEP_TOLERANCE, compare_steps
from tests.engines.learner.support import SUITES, on, spec_of


def distances(name, suite, steps):
    found = compare_steps(on(agent_named(name), BySuite()), spec_of(SUITES[suite]), steps, look_every=1)
    assert found.reference > 0, "double precision is told apart from single"
    return found


def test_both_engines_are_near_the_definition_in_double_precision():
    found = distances("qrc+spr+orth", "vector", 8)
    assert found.fast <= STEP_TOLERANCE
    assert found.reference <= STEP_TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("suite", ["vector", "minatar"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_fast_engine_is_about_as_near_the_truth_as_the_reference(name, suite):
    found = distances(name, suite, 40)
    assert found.fast <= 3 * found.reference, found
