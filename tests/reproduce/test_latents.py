"""Latents of many runs, by processes of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.analysis.latents import NUMBERS, read_latents
from headrace.reproduce.latents import analyse_all
from headrace.runs import packs
from headrace.training.run import make_run
from tests.analysis.synthetic import write_run

PACK = Path(__file__).parents[2] / "results/minatar_1m" / packs.FILE
RECORD = next(path for path in packs.runs(PACK) if path.name.startswith("qrc_minatar-breakout_seed0_"))


def test_what_cannot_be_analysed_is_said_and_passed_by(tmp_path: Path) -> None:
    empty = write_run(tmp_path, make_run("strq", "minatar/breakout", steps=1e6), 1.0)
    said: list[str] = []
    analyse_all([empty], 1, said.append)
    assert said[0] == "effective ranks of 1 run"
    assert said[1].startswith(f"1 of 1: {empty.name}: ")
    assert "no checkpoint and no snapshot" in said[1]
    assert read_latents(empty) is None


def test_a_run_that_has_been_analysed_is_left_alone() -> None:
    said: list[str] = []
    analyse_all([RECORD], 1, said.append)
    assert said == []


@pytest.mark.long
def test_a_record_holds_what_its_encoder_gives(tmp_path: Path) -> None:
    """The committed analysis is that of the committed encoder."""
    copy = tmp_path / RECORD.name
    packs.unpack(RECORD, copy)
    (copy / NUMBERS).unlink()
    analyse_all([copy], 1, lambda _: None)
    found, kept = read_latents(copy), read_latents(RECORD)
    assert found is not None
    assert kept is not None
    np.testing.assert_allclose(found.last.effective_rank, kept.last.effective_rank, rtol=1e-3)
    np.testing.assert_allclose(found.last.effective_rank_centred, kept.last.effective_rank_centred, rtol=1e-3)
