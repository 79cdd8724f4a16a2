"""The pieces that the page is made of, with numbers that can be checked by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.analysis import records
from headrace.analysis.records import find_runs, read_record
from headrace.analysis.report.charts import lines, numbers, series
from headrace.analysis.report.context import Context
from headrace.analysis.report.html import Html, tag
from headrace.analysis.report.page import agent_styles, safe_json
from headrace.analysis.report.quantities import QUANTITIES, quantity
from headrace.analysis.report.sections.overview import hours_of, overview, rate_of
from headrace.analysis.report.sections.runs import _facts, _thinned, run_rows
from headrace.analysis.report.tables import _cell as table_cell, turned
from headrace.analysis.style import DARK_GROUND, ENOUGH, LOOKS, contrast, lifted, looks_of
from headrace.analysis.table import Cell, Table
from headrace.runs.folder import METRICS
from headrace.training.run import make_run
from tests.analysis.synthetic import write_run

GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"


def test_text_is_escaped_and_html_is_not():
    assert tag("p", '<b> & "', class_='a"b') == '<p class="a&quot;b">&lt;b&gt; &amp; &quot;</p>'
    assert tag("p", tag("b", "x"), Html("<i>")) == "<p><b>x</b><i></p>"
    assert tag("td", ["a", ("<", tag("i"))]) == "<td>a&lt;<i></i></td>"
    found = tag("input", type="search", hidden=True, title=None, data_agent=0)
    assert found == '<input type="search" hidden data-agent="0">'


@pytest.mark.parametrize(
    ("mark", "sign"), [("above", "+1.00 ▲"), ("below", "+1.00 ▼"), ("same", "+1.00 ≈"), ("", "+1.00")]
)
def test_a_number_is_marked_as_it_stands_to_the_papers(mark, sign):
    nobody = SimpleNamespace(agents=())
    assert f">{sign}</small>" in table_cell(nobody, Cell("2.00", "1.00", "+1.00", mark), None, first=False)


def test_numbers_have_four_digits_and_what_is_not_finite_is_none():
    found = numbers([1.23456, math.nan, math.inf, -math.inf, 0.0, 123456.0, -1e-7])
    assert found == [1.235, None, None, None, 0, 123500, -1e-7]
    assert numbers([]) == []
    assert numbers([123456789.0], 9) == [123456789]


def test_a_line_has_an_interval_only_where_there_is_one():
    nothing = np.full(2, math.nan)
    assert "low" not in series(0, "a", [1.0, 2.0], nothing, nothing)
    assert series(0, "a", [1.0, 2.0], [0.5, math.nan], [1.5, math.nan])["low"] == [0.5, None]
    assert lines("t", {}, {}, [], "shared")["xs"] == "shared"


def test_data_cannot_end_the_script_that_they_stand_in():
    text = safe_json({"name": "</script><!--\u2028"})
    assert "<" not in text
    assert json.loads(text) == {"name": "</script><!--\u2028"}
    with pytest.raises(ValueError, match="Out of range"):
        safe_json(math.nan)


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


def test_dark_colours_are_lifted_for_a_dark_ground_and_bright_ones_kept():
    assert lifted("#FFD080") == "#FFD080"
    assert contrast("#091275", DARK_GROUND) < ENOUGH <= contrast(lifted("#091275"), DARK_GROUND)


def test_every_agent_stands_out_from_either_ground():
    looks = looks_of([*LOOKS, *(f"qrc td.lr={n}" for n in range(20))])
    for look in looks.values():
        assert contrast(look.dark, DARK_GROUND) >= ENOUGH
    light, dark = agent_styles([looks["dqn"], looks["qrc"]]).split("\n")
    assert f".agent-1{{--c:{LOOKS['qrc'].colour}}}" in light
    assert f".agent-1{{--c:{LOOKS['qrc'].dark}}}" in dark


def test_a_fleet_s_time_is_shared_by_its_streams(tmp_path):
    run = make_run("qrc", "minatar/breakout", steps=1e6)
    record = read_record(write_run(tmp_path, run, 1.0, details={"seconds": 500.0, "streams": 50}))
    assert hours_of(record) == pytest.approx(10 / 3600)
    assert rate_of(record) == pytest.approx(2000)


def test_a_run_that_goes_on_has_the_time_that_it_logged(tmp_path):
    path = write_run(tmp_path, make_run("qrc", "minatar/breakout", steps=1e6), 1.0, status="running", share=0.5)
    assert math.isnan(hours_of(read_record(path)))
    (path / "speed.csv").write_text("step,steps_per_s,seconds\n1000,10.0,100.0\n500000,10.0,7200.0\n")
    assert hours_of(read_record(path)) == pytest.approx(2)


def test_a_table_is_read_again_only_when_it_has_changed(tmp_path, monkeypatch):
    record = read_record(write_run(tmp_path, make_run("qrc+spr", "minatar/breakout", steps=1e6), 5.0, rows=1000))
    reads, whole = [], records.sampled_rows
    monkeypatch.setattr(records, "sampled_rows", lambda *words: reads.append(1) or whole(*words))
    assert len(record.curve()["step"]) > 300
    assert record.curve(("aux_loss", "nowhere")).keys() == {"step", "aux_loss"}
    assert len(reads) == 1
    with (record.path / METRICS).open("a") as table:
        table.write("\n")
    assert record.curve().keys() == {"step", "return"}
    assert len(reads) == 2


@pytest.mark.parametrize("rows", [0, 1, 2, 249, 250, 251, 400, 501])
def test_thinned_rows_are_few_evenly_spaced_and_end_with_the_last(rows):
    kept = _thinned({"step": np.arange(rows)})["step"]
    assert len(kept) <= 250
    assert len(set(np.diff(kept).tolist())) <= 1
    assert rows == 0 or kept[-1] == rows - 1


def test_a_turned_table_has_the_same_cells():
    table = Table("t", "T", ["environment", "a", "b"], [[Cell("x"), Cell("1"), Cell("2")]], [])
    found = turned(table)
    assert list(found.header) == ["agent", "x"]
    assert [[cell.text for cell in row] for row in found.rows] == [["a", "1"], ["b", "2"]]


def test_every_column_of_the_glossary_has_a_label_and_a_unit():
    section = GLOSSARY.read_text().partition("## Columns of metrics.csv")[2].partition("## Columns of the other")[0]
    columns = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")} - {"step"}
    assert columns <= QUANTITIES.keys()
    assert all(what.label and what.unit for what in QUANTITIES.values())
    assert quantity("mine").label == "mine"


def test_a_run_s_facts_say_that_it_is_not_exact(tmp_path: Path):
    run = make_run("strq", "minatar/breakout", steps=10_000)
    whole = write_run(tmp_path / "whole", run, 3.0)
    torn = {"exact": False, "breaks": [{"step": 40, "why": "<b>Robot</b> failed"}]}
    path = write_run(tmp_path / "torn", run, 3.0, details=torn)
    assert "<dt>exact</dt>" not in _facts(read_record(whole))
    told = "<dt>exact</dt><dd>no: &lt;b&gt;Robot&lt;/b&gt; failed, and a new episode was begun after step 40</dd>"
    assert told in _facts(read_record(path))


def test_agents_without_guards_look_as_those_with(tmp_path: Path):
    """Charts name them alike, behind a tab of their own; the list of runs tells them apart."""
    for agent, seed in (("qrc", 0), ("qrc+unguarded", 1), ("strq", 1)):
        run = make_run(agent, "minatar/breakout", seed=seed, steps=5e6)
        write_run(tmp_path / run.name, run, 3.0)
    context = Context(tmp_path, find_runs(tmp_path))
    assert list(context.tabs) == ["minatar_5M", "minatar_5M_unguarded"]
    assert context.agents == ["strq", "qrc", "qrc+unguarded"]
    assert context.looks["qrc"] == context.looks["qrc+unguarded"]
    assert "qrc" in overview(context).make().html
    assert {row[2] for row in run_rows(context)["rows"]} == {0, 1, 2}


def test_agents_behind_a_tab_without_the_papers_are_switched_on(tmp_path: Path):
    """Seven others beside qrc are shown on demand; alone behind a tab of their own they are shown."""
    others = [f"qrc+spr+{name}" for name in ("mean", "separate", "every5", "greedy", "pcgrad", "tau99", "projected")]
    for agent, env in [
        *((agent, "minatar/breakout") for agent in ("qrc", *others)),
        ("q+intentional", "gym/CartPole-v1"),
    ]:
        run = make_run(agent, env, steps=10_000)
        write_run(tmp_path / run.name, run, 3.0)
    context = Context(tmp_path, find_runs(tmp_path))
    assert {context.agents[number] for number in context.switched_off} == set(others)
