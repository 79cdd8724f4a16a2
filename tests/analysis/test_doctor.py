"""`headrace doctor` on the recorded runs, and on what is no run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.analysis import doctor
from headrace.analysis.records import find_runs
from headrace.cli.main import main

RESULTS = Path(__file__).parents[2] / "results"


def verdicts(name):
    return {
        record.name.rpartition("_")[0]: doctor.examine(record).verdict for record in find_runs(RESULTS / name).records
    }


def test_the_blind_runs_on_atari_are_found_and_the_others_are_healthy():
    found = {name: verdict for name, verdict in verdicts("atari").items() if "unguarded" not in name}
    ill = {name for name, verdict in found.items() if verdict != "healthy"}
    assert {"qrc+spr+orth_atari-boxing_seed0_200k", "qrc+spr+orth_atari-breakout_seed0_400k"} <= ill
    assert found["strq_atari-pong_seed0_1M"] == "healthy"


@pytest.mark.parametrize("name", ["minatar_1m", "minatar_5m"])
def test_every_run_on_minatar_is_healthy(name):
    found = verdicts(name)
    assert len(found) > 40
    assert set(found.values()) == {"healthy"}


def only(name):
    (record,) = [r for r in find_runs(RESULTS / "atari").records if r.name.startswith(name)]
    return str(record.path)


BLIND, HEALTHY = "qrc+spr+orth_atari-breakout_seed0_400k", "strq_atari-pong_seed0_1M"


def test_one_run_is_told_over_time_with_the_remedy_and_on_demand_the_limits(capsys):
    assert main(["doctor", only(BLIND)]) == doctor.ILL
    assert len(capsys.readouterr().out.splitlines()) <= 20
    assert main(["doctor", only(BLIND), "--limits"]) == doctor.ILL
    out = capsys.readouterr().out
    assert "verdict: collapsed\n  collapsed since step 1,000: SPR's mean cosine" in out
    assert "--set 'td.guard=Clip(100)' --set 'aux.guard=Clip(100)'" in out
    table = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert len(table) == doctor.WINDOWS
    assert table[0][0] == "40,000"
    assert table[0][2:4] == ["-", "-"]  # there was no sight to be logged
    assert all(symptom["source"] in out for symptom in doctor.symptoms())


def test_a_healthy_run_exits_with_zero_and_says_what_is_not_known(capsys):
    assert main(["doctor", only(HEALTHY), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["verdict"], run["findings"]) == ("healthy", [])
    assert "blind" in run["not_judged"]
    assert run["windows"][-1]["step"] == 1_000_000
    assert run["windows"][-1]["sight"] is None


def test_several_runs_are_a_line_each(capsys):
    assert main(["doctor", only(BLIND), only(HEALTHY)]) == doctor.ILL
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["collapsed", "healthy"]
    assert lines[-1] == "2 runs, 1 with findings"


def test_what_is_no_run_is_said(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "nowhere")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert main(["doctor", str(tmp_path)]) == 1
    assert f"no run was found in {tmp_path}" in capsys.readouterr().err
    (tmp_path / "metrics.csv").write_text("step,return\n")
    assert main(["doctor", str(tmp_path)]) == 1
    assert "it has no manifest.json" in capsys.readouterr().err
