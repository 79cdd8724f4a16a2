"""The longer a run lasts, the more steps it has made, and nothing else grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.bench.growth import held_while_training, left_over
from headrace.training.run import make_run


@pytest.mark.parametrize("variant", ["strq", "qrc+spr+orth"])
def test_steps_leave_nothing_behind(variant: str) -> None:
    """A thousand steps, episodes' ends among them; a single float kept at each step would be 24,000 bytes."""
    run = make_run(variant, "minatar/breakout", steps=100_000, engine="learner")
    assert left_over(run, warm_up=500, steps=1000) < 4000


def test_what_is_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("strq", "minatar/breakout", steps=100_000, engine="learner")
    made, kept = type(run).stream, []

    def leaking(self):
        stream = made(self)
        take = stream.run
        stream.run = lambda n: kept.extend(i + 0.5 for i in range(n)) or take(n)
        return stream

    monkeypatch.setattr(type(run), "stream", leaking)
    assert left_over(run, warm_up=500, steps=1000) > 20_000


@pytest.mark.long
def test_a_million_steps_hold_no_more_memory_than_a_hundred_thousand(tmp_path: Path) -> None:
    run = make_run("qrc", "minatar/breakout", steps=1_000_000, engine="learner")
    held = held_while_training(run, tmp_path, every=100_000)
    print({step: round(mb, 1) for step, mb in held.items()})
    assert len(held) == 10
    assert held[1_000_000] - held[100_000] < 2
