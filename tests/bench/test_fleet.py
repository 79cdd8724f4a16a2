"""How long a block of a fleet takes, from when each was read."""

from __future__ import annotations

import itertools

import pytest

from headrace.bench import fleet


class Unread:
    def run(self, steps: int) -> None:
        """Blocks that nobody looks into: when they are read is the test's to say."""


def test_a_block_that_is_read_late_makes_the_next_one_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    true_ends = itertools.count(3.0, 3.0)
    late = itertools.cycle([2.0, 0.0])
    monkeypatch.setattr(fleet.time, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(fleet, "_read", lambda block: next(true_ends) + next(late))
    times = fleet._repeated(Unread(), 1000, seconds=13.0)
    assert len(times) >= 3
    assert times == [3.0] * len(times)


def test_a_slow_fleet_is_timed_over_some_blocks_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet.time, "perf_counter", lambda: 0.0)
    ends = itertools.count(100.0, 100.0)
    monkeypatch.setattr(fleet, "_read", lambda block: next(ends))
    assert fleet._repeated(Unread(), 1000, seconds=5.0) == [100.0] * (fleet.FEWEST_BLOCKS - 1)
