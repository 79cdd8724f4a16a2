"""Two updates become one, by hand: `encoder` and `projection` are shared, the others belong to one stream."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from headrace.agents import AuxOrthogonalToTd, Average, Bounded, Mix, PcGrad, SharedFlipped, Sum
from headrace.definition.merging import init_merge, merge_updates

TD = {"encoder": [3.0, 0.0], "projection": [0.0, -2.0], "head": [5.0]}
AUX = {"encoder": [-1.0, 4.0], "projection": [6.0, 8.0], "dynamics": [7.0], "predictor": [9.0]}


def tree(values):
    return {name: [{"w": jnp.array(v, jnp.float32)}] for name, v in values.items()}


def merged(merge, td=TD, aux=AUX, direction=None, state=None):
    td, aux = tree(td), tree(aux)
    direction = td if direction is None else tree(direction)
    state = init_merge(merge, td, aux) if state is None else state
    updates, state = merge_updates(merge, td, aux, direction, state)
    return {name: layers[0]["w"].tolist() for name, layers in updates.items()}, state


def alone(encoder, projection):
    return {"encoder": pytest.approx(encoder), "projection": pytest.approx(projection),
            "head": [5.0], "dynamics": [7.0], "predictor": [9.0]}  # fmt: skip


def test_sum_adds_both_updates_of_shared_modules():
    assert merged(Sum())[0] == alone([2, 4], [6, 6])


def test_mix_weighs_both_updates_of_shared_modules_and_takes_the_others_whole():
    assert merged(Mix(0.5))[0] == alone([1, 2], [3, 3])
    assert merged(Mix(0.75))[0] == alone([2, 1], [1.5, 0.5])
    assert merged(Mix(1.0))[0] == alone([3, 0], [0, -2])


def test_the_released_sign_error_flips_the_shared_modules_only():
    assert merged(SharedFlipped())[0] == alone([4, -4], [-6, -10])


def test_orth2_removes_what_lies_along_the_rl_update_in_each_shared_module():
    # encoder: (-1, 4) keeps (0, 4) beside (3, 0).  projection: (6, 8) keeps (6, 0) beside (0, -2).
    assert merged(AuxOrthogonalToTd(combine=Sum()))[0] == alone([3, 4], [6, -2])
    assert merged(AuxOrthogonalToTd(combine=Mix(0.5)))[0] == alone([1.5, 2], [3, -1])


def test_orth2_projects_also_where_the_updates_agree():
    """The auxiliary's (6, 8) has a positive component along (0, 2): it goes too, not only on conflict."""
    td = {**TD, "projection": [0.0, 2.0]}
    assert merged(AuxOrthogonalToTd(combine=Sum()), td=td)[0]["projection"] == pytest.approx([6, 2])


def test_orth2_does_not_fade_with_the_td_error():
    """The RL update is delta times the trace; the trace gives the direction however small delta is."""
    trace = {"encoder": [3.0, 4.0], "projection": [1.0, 1.0], "head": [5.0]}
    tiny = {name: [1e-12 * x for x in values] for name, values in trace.items()}
    updates, _ = merged(AuxOrthogonalToTd(combine=Sum()), td=tiny, direction=trace)
    for name in ("encoder", "projection"):
        left = np.array(updates[name])
        cosine = left @ trace[name] / np.linalg.norm(left) / np.linalg.norm(trace[name])
        assert np.linalg.norm(left) > 1
        assert abs(cosine) < 1e-6


def test_orth2_without_an_rl_direction_leaves_the_auxiliary_update_alone():
    nothing = {"encoder": [0.0, 0.0], "projection": [0.0, 0.0], "head": [0.0]}
    updates, _ = merged(AuxOrthogonalToTd(combine=Sum()), td=nothing)
    assert updates["encoder"] == AUX["encoder"]


def test_orth2_treats_modules_apart():
    """Over encoder and projection jointly the inner product is zero here, and nothing would be removed."""
    td, aux = {"encoder": [1.0, 0.0], "projection": [1.0, 0.0]}, {"encoder": [1.0, 1.0], "projection": [-1.0, 1.0]}
    updates, _ = merged(AuxOrthogonalToTd(combine=Sum()), td=td, aux=aux)
    assert updates == {"encoder": [1.0, 1.0], "projection": [1.0, 1.0]}


def test_orth2_against_the_average_of_rl_updates_over_two_steps():
    merge = AuxOrthogonalToTd(against=Average(beta=0.75), combine=Sum())
    first, state = merged(merge)
    # The averages are a quarter of this step's updates: the same directions.
    assert first == alone([3, 4], [6, -2])
    second, state = merged(merge, td={**TD, "encoder": [0.0, 3.0]}, state=state)
    # encoder: average (0.5625, 0.75); (-1, 4) . it = 2.4375, over 0.87890625 is 208/75: left (-2.56, 1.92) and (0, 3).
    assert second["encoder"] == pytest.approx([-2.56, 4.92])
    assert state["encoder"][0]["w"].tolist() == [0.5625, 0.75]
    assert sorted(state) == ["encoder", "projection"]


def test_pcgrad_projects_both_updates_where_they_conflict():
    # encoder: (3, 0).(-1, 4) = -3 < 0: (3, 0) + 3/17 (-1, 4), and (-1, 4) keeps (0, 4).
    # projection: (0, -2).(6, 8) = -16 < 0: (0, -2) + 0.16 (6, 8), and (6, 8) keeps (6, 0).
    wanted = alone([3 - 3 / 17, 12 / 17 + 4], [0.96 + 6, -0.72])
    assert merged(PcGrad())[0] == wanted


def test_pcgrad_leaves_updates_alone_that_agree():
    td = {"encoder": [3.0, 0.0], "projection": [0.0, 2.0], "head": [5.0]}
    aux = {**AUX, "encoder": [1.0, 4.0]}
    assert merged(PcGrad(), td=td, aux=aux)[0] == alone([4, 4], [6, 10])
    assert merged(PcGrad(Mix(0.5)), td=td, aux=aux)[0] == alone([2, 2], [3, 5])


SHORT = {"encoder": [1.0], "head": [2.0]}, {"encoder": [1.0], "dynamics": [1.0]}  # (2), (2), (1): together 3 long


@pytest.mark.parametrize(("norm", "wanted"), [(1.5, [1, 1, 0.5]), (3.0, [2, 2, 1]), (100.0, [2, 2, 1])])
def test_a_bounded_update_is_no_longer_than_its_norm_over_all_modules_together(norm, wanted):
    updates, _ = merged(Bounded(Sum(), norm), *SHORT)
    assert [updates[name] for name in ("encoder", "head", "dynamics")] == [[x] for x in wanted]


def test_the_second_network_counts_too_and_is_drawn_back_with_the_first():
    assert merged(Bounded(Sum(), 2.5), {"encoder": [3.0], "h_encoder": [4.0]}, {})[0] == {
        "encoder": [1.5], "h_encoder": [2.0]
    }  # fmt: skip


def test_what_is_bounded_is_what_the_inner_merge_makes():
    # (3, 0) less (-1, 4) is (4, -4), and (0, -2) less (6, 8) is (-6, -10); then 5, 7 and 9: squares of 32, 136 and 155.
    half = 0.5 * np.sqrt(32 + 136 + 155)
    bounded = merged(Bounded(SharedFlipped(), half))[0]
    wanted = merged(SharedFlipped())[0]
    assert bounded == {name: pytest.approx([0.5 * x for x in values]) for name, values in wanted.items()}


def test_a_bound_leaves_what_the_inner_merge_remembers_alone():
    inner = AuxOrthogonalToTd(against=Average(beta=0.5), combine=Sum())
    wanted = merged(inner)[1]
    found = merged(Bounded(inner, 1e-3))[1]
    assert {n: a[0]["w"].tolist() for n, a in found.items()} == {n: a[0]["w"].tolist() for n, a in wanted.items()}


def test_an_agent_without_an_auxiliary_takes_its_rl_update_under_every_merge():
    for merge in (Sum(), Mix(), AuxOrthogonalToTd(), PcGrad(), SharedFlipped()):
        assert merged(merge, aux={})[0] == TD
