"""`headrace bench` as a user types it. Nothing here depends on how fast the machine is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from headrace.bench import footprint
from headrace.bench.cost import Cost, Peaks, Product
from headrace.bench.single import Block, _figures
from headrace.cli.bench import _settle, add_words
from headrace.cli.main import main

KEYS = {
    "steps_per_s", "update_steps_per_s", "p50_ms", "p99_ms", "gflops", "gbytes_per_s", "roofline_fraction",
    "peak_rss_mb",
}  # fmt: skip


def bench(file: Path, *words: str) -> dict:
    assert main(["bench", *words, "--seconds", "0.05", "--json", str(file)]) == 0
    return json.loads(file.read_text())


def test_the_learner_on_minatar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench(tmp_path / "x.json", "--suite", "minatar", "--variant", "strq", "--engine", "learner")
    assert all(found[key] > 0 for key in KEYS)
    assert found["p50_ms"] <= found["p99_ms"]
    assert found["peaks"]["operations_per_step"] == 1_272_832
    assert (found["suite"], found["variant"], found["engine"], found["game"]) == (
        "minatar",
        "strq",
        "learner",
        "breakout",
    )
    assert {"cpu", "cores", "numpy"} <= found["machine"].keys()
    printed = capsys.readouterr().out
    assert "strq on minatar/breakout, one core of" in printed
    assert "share of the roofline" in printed


def test_what_agents_take_on_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footprint, "COMPILERS", {"nowhere": ("size", "no-such-compiler")})
    monkeypatch.delitem(footprint.NETWORKS, "Atari's")
    assert main(["bench", "--footprint", "--json", str(tmp_path / "x.json")]) == 0
    found = json.loads((tmp_path / "x.json").read_text())
    rows = {(row["network"], row["variant"]): row for row in found["agents"]}
    assert len(rows) == 18
    small, large = rows["MLP of 64", "strq"], rows["MinAtar's", "qrc+spr+orth"]
    assert small["parameters"] == (8 * 64 + 64) + (64 * 64 + 64) + 64 * 4
    assert small["saved_bytes"] > 2 * 4 * small["parameters"], "weights, trace, and what else is kept"
    assert (small["smallest_board"], large["smallest_board"]) == ("512 kB board", "Raspberry Pi")
    assert all(row["memory_bytes"] > row["saved_bytes"] for row in rows.values())
    printed = capsys.readouterr().out
    assert "MLP of 64  strq" in printed
    assert "code, nowhere: no compiler" in printed


class Timed:
    """A contender whose answers take 1, 2 and 3 milliseconds, as often as is asked for."""

    def latencies(self, steps: int) -> np.ndarray:
        return np.resize([0.001, 0.002, 0.003], steps)

    def report(self) -> dict[str, float]:
        return {}


def test_figures_of_an_engine_by_hand() -> None:
    """100 steps/s of 2 MFLOP and 8 kB, on a core that the process has half of, where one takes 5 ms at best."""
    cost, peaks = Cost((Product(100, 100, 100),), state_floats=1000), Peaks(0.4, 1e9, 0.0)
    found = _figures(Timed(), {"update": [Block(100.0, 200.0)] * 3}, cost, peaks, seconds=1.0)
    assert (found["p50_ms"], found["p99_ms"]) == pytest.approx((2.0, 3.0))
    assert (found["update_steps_per_s"], found["cpu_update_steps_per_s"], found["share_of_core"]) == (100, 200, 0.5)
    assert (found["gflops"], found["gbytes_per_s"]) == pytest.approx((0.2, 8e-4))
    assert (found["roofline_fraction"], found["cpu_roofline_fraction"]) == pytest.approx((0.5, 1.0))


@pytest.mark.long
@pytest.mark.parametrize("suite", ["minatar", "octax", "atari"])
def test_both_engines_take_turns(suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench(tmp_path / "x.json", "--suite", suite, "--variant", "qrc+spr+orth", "--engine", "both")
    for engine in ("learner", "reference"):
        assert found[engine].keys() >= KEYS
        assert found[engine]["update_steps_per_s"] > 0
    assert found["update_ratio"] > 0
    assert found["ratio"] > 0
    assert "learner / reference: " in capsys.readouterr().out


def test_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--on", "fleet", "--streams", "2", "--suite", "minatar", "--game", "breakout", "--variant", "strq")
    found = bench(tmp_path / "x.json", *words)
    assert found["stream_steps_per_s"] == pytest.approx(2e6 / found["microseconds_per_step"])
    assert found["state_mb_per_step"] == pytest.approx(2 * 2_114_816 / 1e6)
    assert found["kernels_per_step"] is None
    assert sum(found["loop_operations"].values()) > 10
    assert capsys.readouterr().out.startswith("strq, 2 streams of minatar/breakout on cpu\n")


def test_each_place_has_the_usual_values_of_its_own_words() -> None:
    parser = argparse.ArgumentParser()
    add_words(parser, float)
    core, fleet = parser.parse_args([]), parser.parse_args(["--on", "fleet"])
    _settle(core)
    _settle(fleet)
    assert (core.engine, core.streams) == ("both", None)
    assert (fleet.engine, fleet.streams) == (None, 45)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--suite minitar", "unknown suite 'minitar'; did you mean 'minatar'?"),
        ("--variant qcr", "unknown variant 'qcr'; did you mean 'qrc'?"),
        ("--engine lerner", "unknown engine 'lerner'; did you mean 'learner'?"),
        ("--game brekout", "unknown environment 'minatar/brekout'; did you mean 'minatar/breakout'?"),
        ("--on cluster", "unknown place to measure 'cluster'"),
        ("--seconds 0", "seconds must be a number above 0, got 0"),
        ("--variant qrc+curl", "the work of Curl is not counted"),
        ("--json none/x.json", "cannot write none/x.json: No such file or directory"),
        ("--json /", "cannot write /: Is a directory"),
        ("--on fleet --json none/x.json", "cannot write none/x.json: No such file or directory"),
        ("--on fleet --streams 3", "5 games need as many streams at least, got 3"),
        ("--on fleet --suite chess", "unknown suite 'chess'. Known: atari, gym, minatar, octax, own, probe."),
        ("--on fleet --suite minatr", "unknown suite 'minatr'; did you mean 'minatar'? Known: atari, gym, "),
        ("--on fleet --suite gym", "--game must name an environment of gym"),
        (
            "--on fleet --game brekout",
            "unknown environment 'minatar/brekout'; did you mean 'minatar/breakout'? Known: minatar/asterix, ",
        ),
        ("--on fleet --engine learner", "--engine goes with --on core, got --on fleet"),
        ("--on fleet --engine both", "--engine goes with --on core, got --on fleet"),  # the usual value is no exception
        ("--streams 10", "--streams goes with --on fleet, got --on core"),
        ("--on core --streams 45", "--streams goes with --on fleet, got --on core"),
    ],
)
def test_bad_input_is_one_message(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words.split()]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"headrace: {said}")
    assert printed.err.count("\n") == 1
