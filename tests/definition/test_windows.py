"""Observations and actions carry the number of their step, so that a window shows what belongs together.

In the k-th episode, step i leads from observation 100 k + i, by action i mod 3, to observation 100 k + i + 1.
"""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from headrace.agents import Curl, ReleasedRing, Spr
from headrace.definition.windows import init_window, push
from tests.definition.support import transition


def episodes(*lengths, last_kind="terminated"):
    """Numbered transitions; each episode ends at its last one."""
    for k, length in enumerate(lengths, start=1):
        for i in range(length):
            ends = {last_kind: True} if i == length - 1 else {}
            yield transition([100 * k + i], i % 3, 0.0, [100 * k + i + 1], **ends)


def sights(objective, transitions):
    """(observations, actions) where the window is ready, None elsewhere."""
    seen, state = [], None
    for t in transitions:
        state = init_window(objective, t) if state is None else state
        window, state = push(objective, state, t)
        seen.append((window.observations[:, 0].tolist(), window.actions.tolist()) if window.ready else None)
    return seen


@pytest.mark.parametrize("last_kind", ["terminated", "truncated"])
def test_the_window_is_of_one_episode_and_ends_with_the_true_successor(last_kind):
    assert sights(Spr(horizon=3), episodes(5, 4, last_kind=last_kind)) == [
        None,
        None,
        ([100, 101, 102, 103], [0, 1, 2]),
        ([101, 102, 103, 104], [1, 2, 0]),
        ([102, 103, 104, 105], [2, 0, 1]),
        None,
        None,
        ([200, 201, 202, 203], [0, 1, 2]),
        ([201, 202, 203, 204], [1, 2, 0]),
    ]


def test_episodes_shorter_than_the_horizon_are_never_seen_nor_counted_on():
    seen = sights(Spr(horizon=3), episodes(2, 1, 2, 3, 2, 4))
    assert [i for i, window in enumerate(seen) if window] == [7, 12, 13]
    assert seen[7] == ([400, 401, 402, 403], [0, 1, 2])
    assert seen[13] == ([601, 602, 603, 604], [1, 2, 0])


def test_a_horizon_of_one_sees_every_transition():
    assert sights(Spr(horizon=1), episodes(1, 2)) == [([100, 101], [0]), ([200, 201], [0]), ([201, 202], [1])]


def test_a_lost_life_does_not_empty_the_window():
    lives = [
        transition([i], i % 3, 0.0, [i + 1], terminated=i in (1, 3), last=i == 4) for i in range(5)
    ]  # fmt: skip
    again = [transition([50 + i], i % 3, 0.0, [51 + i]) for i in range(3)]
    assert sights(Spr(horizon=3), [*lives, *again]) == [
        None,
        None,
        ([0, 1, 2, 3], [0, 1, 2]),
        ([1, 2, 3, 4], [1, 2, 0]),
        ([2, 3, 4, 5], [2, 0, 1]),
        None,
        None,
        ([50, 51, 52, 53], [0, 1, 2]),
    ]


@pytest.mark.parametrize("horizon", [1, 2, 5, 10])
def test_observation_action_and_successor_belong_together_for_any_horizon(horizon):
    for window in sights(Spr(horizon=horizon), episodes(3, 12, 1, 11, 10)):
        if window:
            observations, actions = window
            first = observations[0]
            assert observations == [first + k for k in range(horizon + 1)]
            assert actions == [(first + k) % 100 % 3 for k in range(horizon)]


def test_the_released_ring_is_ready_once_in_horizon_plus_one_steps():
    seen = sights(Spr(horizon=3, window=ReleasedRing()), episodes(40))
    assert [i for i, window in enumerate(seen) if window] == list(range(6, 40, 4))


def test_the_last_image_of_the_released_ring_is_older_than_the_others():
    seen = sights(Spr(horizon=3, window=ReleasedRing()), episodes(40))
    assert seen[6] == ([104, 105, 106, 103], [1, 2, 0])
    assert seen[10] == ([108, 109, 110, 107], [2, 0, 1])
    for observations, _ in filter(None, seen):
        assert observations[-1] == observations[0] - 1


def test_the_released_ring_runs_on_over_the_ends_of_episodes():
    assert sights(Spr(horizon=2, window=ReleasedRing()), episodes(2, 2, 3))[4] == ([201, 300, 200], [1, 0])


def test_curl_sees_the_last_observations_of_whichever_episode():
    seen = sights(Curl(batch=3), episodes(2, 3))
    assert seen[:2] == [None, None]
    assert [observations for observations, _ in seen[2:]] == [[100, 101, 200], [101, 200, 201], [200, 201, 202]]


def test_looking_keeps_shapes_and_types():
    t = transition([1.0], 0, 0.0, [2.0])
    before = init_window(Spr(horizon=3), t)
    _, after = push(Spr(horizon=3), before, t)
    assert [(x.shape, x.dtype) for x in after] == [(x.shape, x.dtype) for x in before]
    assert after.observations.dtype == jnp.float32
