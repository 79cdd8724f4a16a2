"""The work of a step against numbers worked out by hand."""

from __future__ import annotations

import pytest

from headrace.agents import KNOWN, agent_named, parameter_count, tweak
from headrace.bench.cost import Product, cost_of
from headrace.errors import BadSetting

ATARI, BREAKOUT = ((84, 84, 4), 4), ((10, 10, 4), 3)

# Multiplications of one forward pass of the Atari network, layer by layer: positions x inputs x outputs.
FIRST = 20 * 20 * (8 * 8 * 4) * 32
REST = 9 * 9 * (4 * 4 * 32) * 64 + 7 * 7 * (3 * 3 * 64) * 64 + 3136 * 512 + 512 * 4
FORWARD, BACKWARD = FIRST + REST, FIRST + REST + REST  # the image itself needs no gradient


def test_a_product_counts_two_operations_for_each_multiplication() -> None:
    assert Product(2, 3, 5).operations == 60
    assert Product(2, 3, 5, times=0.5).operations == 30


def test_an_atari_forward_pass_is_nine_million_multiplications() -> None:
    assert FORWARD == 9_345_024


@pytest.mark.parametrize(
    ("variant", "forward", "backward"),
    [("dqn", 2, 1), ("strq", 2, 1), ("dqn+replay5", 3, 1), ("qrc", 3, 3), ("qrc+target", 3, 2)],
)
def test_the_passes_of_each_rule(variant: str, forward: int, backward: int) -> None:
    """Q(s') and the next action's Q always; Q(s) again where it was recalled; h, and the way through max Q(s')."""
    assert cost_of(agent_named(variant), *ATARI).operations == 2 * (forward * FORWARD + backward * BACKWARD)


def test_spr_on_atari() -> None:
    """K = 5: six images encoded, ten latents projected, five steps of the dynamics; then all of it backwards."""
    encoder, projection, predictor, dynamics = FORWARD - 3136 * 512 - 2048, 3136 * 512, 512 * 512, 2 * 49 * 576 * 64
    there = 6 * encoder + 10 * projection + 5 * predictor + 5 * dynamics
    back = 2 * (5 * projection + 5 * predictor + 5 * dynamics) + (2 * encoder - FIRST)
    spr = cost_of(agent_named("dqn+spr"), *ATARI).operations - cost_of(agent_named("dqn"), *ATARI).operations
    assert spr == 2 * (there + back)


def test_an_auxiliary_every_fifth_step_costs_a_fifth() -> None:
    base, always = (cost_of(agent_named(name), *BREAKOUT).operations for name in ("qrc", "qrc+spr"))
    fifth = cost_of(agent_named("qrc+spr+every5"), *BREAKOUT).operations
    assert fifth - base == pytest.approx((always - base) / 5)


@pytest.mark.parametrize(("variant", "arrays"), [("dqn", 1), ("dqn+polyak", 2), ("strq", 2), ("qrc", 2)])
def test_weights_and_traces_move_in_and_out(variant: str, arrays: int) -> None:
    """qrc has a trace for every parameter of both networks."""
    agent = agent_named(variant)
    assert cost_of(agent, *ATARI).state_bytes == 2 * 4 * arrays * parameter_count(agent, *ATARI)


def test_orth_also_moves_a_history_of_what_the_auxiliary_learns() -> None:
    without, with_history = (cost_of(agent_named(name), *ATARI).state_floats for name in ("qrc+spr", "qrc+spr+orth"))
    head = 512 * 4
    assert with_history - without == 2_024_992 - head  # all parameters of Q, predictor and dynamics, but the head


def test_gradients_of_dense_layers_ride_along_and_others_do_not() -> None:
    cost = cost_of(agent_named("strq"), *BREAKOUT)
    assert cost.outer == (Product(1024, 1, 128), Product(128, 1, 3))
    assert Product(36, 64, 16) in cost.products


def test_a_network_for_vectors_has_only_dense_layers() -> None:
    cost = cost_of(tweak(agent_named("qrc+spr"), "network=Mlp((16,), 8)"), (4,), 2)
    assert Product(16, 5, 16) in cost.outer  # dynamics, over the window
    assert not any(p.inner == 5 for p in cost.products)


@pytest.mark.parametrize("variant", list(KNOWN))
def test_every_variant_is_counted_but_curl(variant: str) -> None:
    if variant == "qrc+curl":
        with pytest.raises(BadSetting, match="the work of Curl is not counted"):
            cost_of(agent_named(variant), *BREAKOUT)
    else:
        cost = cost_of(agent_named(variant), *BREAKOUT)
        assert cost.operations > 1e6
        assert cost.state_floats >= parameter_count(agent_named(variant), *BREAKOUT)
