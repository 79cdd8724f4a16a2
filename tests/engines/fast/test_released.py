"""What the released code has of its own is the reference engine's, step by step: head, bound, orth, limited observations."""

from __future__ import annotations

import pytest

from headrace.agents import BySuite, agent_named, tweak
from tests.engines.fast.parity import compare_steps
from tests.engines.fast.support import SUITES, on, spec_of

# A bound and a limit that act at most steps, though not at all; each piece with every kind of rule and of module.
PIECES = [
    ("released", "merge.norm=1e-3"),
    ("released-down", "td_filter=Orth(modules=Together)", "aux.gate=Every(2)", "aux.objective.window=Episode"),
    ("released-dqn+spr", "merge.norm=1e-4", "observations=Limited(0.5)"),
    ("qrc", "network.head=Relu", "merge=Bounded(Sum, 1e-3)", "observations=Limited(1)"),
    ("strq+spr+orth2", "network.head=Relu", "merge=Bounded(AuxOrthogonalToTd, 1e-3)", "aux.filter.modules=Together"),
]  # fmt: skip


@pytest.mark.parametrize("pieces", PIECES, ids=lambda p: p[0])
def test_a_step_gives_the_state_of_the_reference_engine(pieces):
    name, *settings = pieces
    compare_steps(on(tweak(agent_named(name), *_on_suite(settings)), BySuite()), spec_of(SUITES["vector"]), 40)


def _on_suite(settings):
    return settings
