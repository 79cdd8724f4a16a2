"""Errors name what was wrong and what would be right."""

from __future__ import annotations

from headrace.errors import (
    UnknownName,
    raised,
    unknown,
)


def test_unknown_names_get_the_nearest_known_one():
    error = unknown("variant", "qrc+sprr", ["dqn", "qrc", "qrc+spr"])
    assert isinstance(error, UnknownName)
    assert str(error) == "unknown variant 'qrc+sprr'; did you mean 'qrc+spr'? Known: dqn, qrc, qrc+spr."
    assert str(unknown("sink", "zzz", ["wandb"])) == "unknown sink 'zzz'. Known: wandb."
    assert str(unknown("x", "Q", [str(i) for i in range(15)])).endswith("and 3 more.")


def test_what_was_raised_is_told_with_its_words_where_it_has_any():
    assert raised(ValueError("no such leg"), " at step 3") == "ValueError at step 3: no such leg"
    assert raised(SystemExit()) == "SystemExit"
