"""Runs found below a folder, whatever else lies there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.analysis.records import REPORT_MARK, duplicates, find_runs, read_record
from headrace.errors import HeadraceError
from headrace.runs import packs
from headrace.runs.folder import RunFolder
from headrace.runs.tables import last_rows, read_table, sampled_rows
from headrace.training.run import make_run
from tests.analysis.synthetic import store, write_run

RECORDED = Path(__file__).parents[2] / "results" / "minatar_1m"


def one(agent="qrc", env="minatar/breakout", **words):
    return make_run(agent, env, **{"steps": 1e6, "engine": "reference", **words})


def test_a_run_is_told_by_its_manifest(tmp_path):
    path = write_run(tmp_path, one(seed=3, settings=("td.lr=0.0005",)), 7.0)
    record = read_record(path)
    assert (record.agent, record.suite, record.env) == ("qrc td.lr=0.0005", "minatar", "minatar/breakout")
    assert (record.seed, record.steps, record.step, record.state) == (3, 1_000_000, 1_000_000, "finished")
    assert record.score.mean == pytest.approx(7.0)
    assert record.score.points == 50


def test_packed_records_are_read_as_runs_are():
    found = find_runs(RECORDED)
    assert len(found.records) == len(packs.load(RECORDED / packs.FILE)) > 0
    assert found.problems == []
    for record in found.records[:5]:
        assert record.score == RunFolder.read(record.path).score()


def test_other_rules_make_another_suite(tmp_path):
    write_run(tmp_path, one(settings=("env.sticky=0",)), 1.0)
    assert find_runs(tmp_path).records[0].suite == "minatar sticky=0.0"


def test_runs_are_found_at_any_depth_and_once(tmp_path):
    write_run(tmp_path / "a" / "b", one(), 1.0)
    write_run(tmp_path, one(seed=1), 1.0)
    assert len(find_runs([tmp_path, tmp_path / "a"]).records) == 2


@pytest.mark.parametrize("status", ["interrupted", "diverged", "failed"])
def test_how_a_run_ended_is_kept(tmp_path, status):
    details = {"diverged": {"quantity": "q", "step": 7}} if status == "diverged" else {"cause": "no room"}
    path = write_run(tmp_path, one(), 1.0, status=status, share=0.3, details=details)
    record = read_record(path)
    assert (record.state, record.step) == (status, 300_000)
    assert record.cause == ("q was no longer finite at step 7" if status == "diverged" else "no room")


def test_a_run_that_nobody_runs_was_interrupted(tmp_path):
    assert read_record(write_run(tmp_path, one(), 1.0, status="running", share=0.1)).state == "interrupted"


def test_an_empty_folder_has_no_runs(tmp_path):
    found = find_runs(tmp_path)
    assert (found.records, found.problems, found.notices()) == ([], [], [])


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(HeadraceError, match="nowhere does not exist"):
        find_runs(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="is not a folder"):
        find_runs(tmp_path / "file")


def test_a_report_among_the_runs_is_passed_by_in_silence(tmp_path):
    write_run(tmp_path, one(), 1.0)
    (tmp_path / "report" / "tables").mkdir(parents=True)
    (tmp_path / "report" / "index.html").write_text(f"<html><head>{REPORT_MARK}")
    (tmp_path / "report" / "tables" / "cost.csv").write_text("a")
    assert find_runs(tmp_path).notices() == []
    (tmp_path / "README.md").write_text("mine")
    assert find_runs(tmp_path).notices() == ["1 file that belongs to no run was passed over"]


def test_foreign_files_are_counted(tmp_path):
    (tmp_path / "music").mkdir()
    (tmp_path / "music" / "song.mp3").write_bytes(b"\xff\x00")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".sweep.lock").touch()  # a sweep's own
    write_run(tmp_path, one(), 1.0)
    found = find_runs(tmp_path)
    assert len(found.records) == 1
    assert found.notices() == ["2 files that belong to no run were passed over"]


def half_copied(path):
    (path / "manifest.json").unlink()


def cut_manifest(path):
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text[: len(text) // 2])


def foreign_manifest(path):
    (path / "manifest.json").write_text('{"name": "an app", "icons": []}')


def empty_identity(path):
    facts = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**facts, "identity": {}}))


def list_manifest(path):
    (path / "manifest.json").write_text("[1, 2]")


def damaged_table(path):
    (path / "metrics.csv").write_bytes(b"step,return\n1000,2.0\n2000,\xff\xfe\n")


@pytest.mark.parametrize(
    "harm", [half_copied, cut_manifest, foreign_manifest, empty_identity, list_manifest, damaged_table]
)
def test_a_damaged_run_is_a_problem_with_a_reason(tmp_path, harm):
    harm(write_run(tmp_path, one(), 1.0))
    write_run(tmp_path, one(seed=1), 1.0)
    found = find_runs(tmp_path)
    assert [r.seed for r in found.records] == [1]
    assert len(found.problems) == 1
    assert found.problems[0].why


def packed(path):
    """Puts a run's files into its folder's pack, word for word, in place of the run's folder."""
    files = {name: (path / name).read_text() for name in ("manifest.json", "metrics.csv")}
    (path.parent / packs.FILE).write_bytes(packs.encode({path.name: files}))
    shutil.rmtree(path)


def test_a_packed_run_reads_like_its_own_folder(tmp_path):
    path = write_run(tmp_path, one(), 5.0, rows=700)
    plain, curve, table = read_record(path), read_record(path).curve(), read_table(path / "metrics.csv")
    packed(path)
    (record,) = find_runs(tmp_path).records
    assert (record, record.score, list(record.table())) == (plain, plain.score, list(table))
    assert find_runs(tmp_path).notices() == []
    for read, known in ((record.curve(), curve), (RunFolder.read(path).metrics(), table)):
        assert list(read) == list(known)
        for name in read:
            np.testing.assert_array_equal(read[name], known[name])


def test_a_damaged_pack_is_a_problem_and_other_runs_are_found(tmp_path):
    packed(write_run(tmp_path, one(), 1.0))
    write_run(tmp_path, one(seed=1), 1.0)
    pack = tmp_path / packs.FILE
    pack.write_bytes(pack.read_bytes()[:-20])
    found = find_runs(tmp_path)
    assert [r.seed for r in found.records] == [1]
    assert [(p.path, p.why.partition(":")[0]) for p in found.problems] == [(pack, "is damaged")]
    with pytest.raises(HeadraceError, match=r"records\.jsonl\.xz is damaged"):
        RunFolder.read(tmp_path)


def test_a_damaged_run_in_a_pack_is_a_problem_and_the_others_are_read(tmp_path):
    good, bad = (write_run(tmp_path / "runs", one(seed=seed), 1.0) for seed in range(2))
    files = {name: (good / name).read_text() for name in ("manifest.json", "metrics.csv")}
    (tmp_path / packs.FILE).write_bytes(packs.encode({good.name: files, bad.name: {"metrics.csv": "step\n"}}))
    shutil.rmtree(tmp_path / "runs")
    found = find_runs(tmp_path)
    assert [r.name for r in found.records] == [good.name]
    assert [p.path.name for p in found.problems] == [bad.name]


def test_a_line_still_being_written_is_left_out(tmp_path):
    path = write_run(tmp_path, one(), 5.0, rows=100)
    with (path / "metrics.csv").open("a") as table:
        table.write("1000001,9")
    assert read_record(path).step == 1_000_000
    assert read_record(path).curve()["return"][-1] == 5.0


def test_a_run_without_a_row_has_no_score(tmp_path):
    path = write_run(tmp_path, one(), 1.0, status="interrupted")
    (path / "metrics.csv").write_text("")
    record = read_record(path)
    assert (record.score, record.step, record.curve()) == (None, 0, {})
    (path / "metrics.csv").unlink()
    assert read_record(path).score is None


def test_unknown_parts_keep_the_name_that_their_run_gave_them(tmp_path):
    path = write_run(tmp_path, one(), 1.0)
    facts = json.loads((path / "manifest.json").read_text())
    facts["identity"]["agent"] = {"part": "FromTheFuture"}
    facts["identity"]["env"] = {"name": "moon/lander", "rules": {"part": "MoonRules"}, "form": "host"}
    facts["agent"] = "future"
    (path / "manifest.json").write_text(json.dumps(facts))
    record = read_record(path)
    assert (record.agent, record.suite, record.env) == ("future", "moon", "moon/lander")


def test_looking_at_runs_imports_nothing_that_they_name(tmp_path, monkeypatch):
    path = write_run(tmp_path, one(), 1.0)
    facts = json.loads((path / "manifest.json").read_text())
    facts["identity"]["agent"]["td"] = {"part": "their_rules.Rule"}
    facts["identity"]["env"]["rules"] = {"part": "their_rules.Rules"}
    (path / "manifest.json").write_text(json.dumps({**facts, "agent": "their agent"}))
    (tmp_path / "their_rules.py").write_text("raise SystemExit('it was run')")
    monkeypatch.chdir(tmp_path)
    record = read_record(path)
    assert (record.agent, record.suite) == ("their agent", "minatar")


def test_of_two_equal_runs_one_is_used_and_both_are_named(tmp_path):
    write_run(tmp_path / "a", one(), 1.0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    records = find_runs(tmp_path).records
    kept, said = duplicates(records)
    assert len(records) == 2
    assert len(kept) == 1
    assert len(said) == 1
    assert "2 runs of qrc on minatar/breakout, 1,000,000 steps, seed 0" in said[0]


def test_of_two_engines_runs_the_finished_one_is_used(tmp_path):
    for engine, status in (("reference", "finished"), ("learner", "interrupted")):
        write_run(tmp_path, one(engine=engine), 1.0, status=status)
    kept, _ = duplicates(find_runs(tmp_path).records)
    assert [(record.engine, record.state) for record in kept] == [("reference", "finished")]


def test_sampled_rows_are_rows_of_the_table(tmp_path):
    path = write_run(tmp_path, one(), 3.0, rows=780) / "metrics.csv"
    whole, some = read_table(path), sampled_rows(path, 100)
    assert list(some) == list(whole)
    assert len(some["step"]) <= 100
    assert some["step"][-1] == whole["step"][-1]
    places = np.searchsorted(whole["step"], some["step"])
    np.testing.assert_array_equal(whole["return"][places], some["return"])
    assert len(set(np.diff(places))) == 1


@pytest.mark.parametrize("rows", [1, 49, 50, 51, 400, 5000])
def test_last_rows_are_the_tables_last(tmp_path, rows):
    path = write_run(tmp_path, one(), 3.0, rows=rows) / "metrics.csv"
    np.testing.assert_array_equal(last_rows(path, 50)["return"], read_table(path)["return"][-50:])


def test_reading_runs_loads_no_jax(tmp_path):
    store(tmp_path, agents=("qrc",), seeds=(0,))
    code = (
        "import sys, numpy; from headrace.analysis import artefacts, records, scores;"
        f"g = scores.groups(records.find_runs({str(tmp_path)!r}).records);"
        "list(artefacts.tables(g, numpy.random.default_rng(0)));"
        "sys.exit('jax' in sys.modules or 'headrace.engines.learner' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
