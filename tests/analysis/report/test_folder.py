"""What `headrace report` writes, and what it says where there is nothing to report on."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from itertools import islice

import pytest

from headrace.agents import ABLATIONS, VARIANTS
from headrace.analysis.artefacts import drawings
from headrace.analysis.report import videos
from headrace.analysis.report.folder import write_report
from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.training.curve import learning_curve
from headrace.training.run import make_run
from tests.analysis.synthetic import MINATAR, store, write_run
from tests.small_runs import contents

GAME = "minatar/breakout"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Four runs, of which one figure is drawn: figures are most of what a small report costs."""
    monkeypatch.setattr("headrace.analysis.report.gallery.drawings", lambda *given: islice(drawings(*given), 1))
    return store(tmp_path / "runs", ("qrc", "dqn"), (GAME,), range(2))


def test_the_report_is_one_page_with_its_data_figures_and_tables_beside_it(report):
    top = {path.name for path in report.iterdir()}
    assert top == {"index.html", "data", "figures", "tables"}
    assert list(report.rglob("*.html")) == [report / "index.html"]
    for folder, kinds in (("figures", ("png", "pdf")), ("tables", ("csv", "md", "tex"))):
        names = [{path.stem for path in (report / folder).glob(f"*.{kind}")} for kind in kinds]
        assert names[0]
        assert all(found == names[0] for found in names)


def test_the_page_names_no_other_place(report):
    page = (report / "index.html").read_text()
    named = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert named == {"http://www.w3.org/2000/svg"}  # the name of a kind of XML; nothing is fetched from it
    assert "@import" not in page
    assert "url(" not in page


def test_the_paper_s_numbers_stand_beside_ours(report):
    page = (report / "index.html").read_text()
    assert "paper 13.38 ± 4.77" in page  # qrc+spr+orth on Breakout in the paper's MinAtar table
    table = (report / "tables" / "scores_minatar_5M_score.csv").read_text()
    assert "13.38" in table


def test_the_same_runs_give_the_same_files_but_for_the_time(small, tmp_path):
    first, second = (write_report(small, tmp_path / name).page.parent for name in "ab")
    ours, theirs = ({name: data for name, (data, _) in contents(folder).items()} for folder in (first, second))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name] and name != "index.html"] == []


def test_an_earlier_report_is_replaced_and_nothing_else_is(small, tmp_path):
    out = tmp_path / "report"
    write_report(small, out)
    (out / "left over").touch()
    shutil.rmtree(next(small.glob("dqn_*seed0*")))
    write_report(small, out)
    assert not (out / "left over").exists()
    assert len(list((out / "data" / "runs").iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(HeadraceError, match="not empty and is not a report"):
        write_report(small, mine)
    assert contents(mine).keys() == {"thesis.tex"}
    with pytest.raises(HeadraceError, match="not empty and is not a report"):
        write_report(small, small)


def test_a_report_among_the_runs_is_no_foreign_matter(small):
    assert write_report(small, small / "report").notices == []
    assert write_report(small, small / "report").notices == []


def test_a_report_that_cannot_be_finished_leaves_the_earlier_one(small, tmp_path, monkeypatch):
    out = tmp_path / "report"
    write_report(small, out)
    before = contents(out)
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(HeadraceError, match="no room to write"):
        write_report(small, out)
    assert contents(out) == before
    assert not (tmp_path / ".report.new").exists()


def empty(folder):
    folder.mkdir()


def foreign(folder):
    folder.mkdir()
    (folder / "notes.txt").write_text("hello")
    (folder / "index.html").write_text("<p>a page of somebody else's")


def half_written(folder):
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "metrics.csv").write_text("step,return\n1000,")


def no_manifest_at_all(folder):
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "manifest.json").write_text('{"format": 1, "identity": {"ag')


def absent(folder):
    pass


def a_file(folder):
    folder.write_text("not a folder")


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (empty, "holds no run that can be read"),
        (foreign, "2 files that belong to no run"),
        (half_written, "has no manifest.json"),
        (no_manifest_at_all, "is not a run's manifest"),
        (absent, "does not exist"),
        (a_file, "is not a folder"),
    ],
)
def test_where_there_is_no_run_it_says_so_and_writes_nothing(make, word, tmp_path, capsys):
    make(tmp_path / "runs")
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report")]) == 1
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_good_runs_among_bad_ones_are_reported_with_a_word_on_the_bad(small, tmp_path, capsys):
    half_written(small / "bad")
    no_manifest_at_all(small / "worse")
    (small / "notes.txt").write_text("hello")
    broken = write_run(small, make_run("strq", GAME, steps=5e6), 1.0)
    (broken / "metrics.csv").write_text("step,return\n1000,one\n2000,two\n")
    assert main(["report", str(small), "--out", str(tmp_path / "report"), "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["runs"] == 4
    page = (tmp_path / "report" / "index.html").read_text()
    for word in ("has no manifest.json", "is not a run", "1 file that belongs to no run", "not rows of numbers"):
        assert word in said.err
        assert word.replace("'", "&#x27;") in page


def test_suites_budgets_and_agents_of_another_version_can_be_mixed(small, tmp_path):
    store(small, ("qrc",), (GAME,), range(2), 1e6)
    write_run(small, make_run("qrc", GAME, steps=5e6, settings=["env.sticky=0"]), 2.0)
    other = write_run(small, make_run("qrc", GAME, seed=5, steps=5e6), 2.0)
    facts = json.loads((other / "manifest.json").read_text())
    facts["identity"]["agent"] = {"part": "Martian"}
    facts["identity"]["env"] = {"name": "mars/<b>rover</b>", "rules": {"part": "Red"}, "form": "host"}
    facts["agent"] = "<i>martian</i>"
    (other / "manifest.json").write_text(json.dumps(facts))
    page = write_report(small, tmp_path / "report").page.read_text()
    for title in ("minatar, 1M steps", "minatar, 5M steps", "minatar sticky=0.0, 5M steps", "mars, 5M steps"):
        assert f">{title}</button>" in page
        assert f"<h2>Learning curves <small>{title}</small></h2>" in page
    assert "&lt;i&gt;martian&lt;/i&gt;" in page
    assert "<i>martian" not in page
    assert "<b>rover" not in page


def test_a_video_is_made_where_it_is_asked_for(finished_compiled, small, tmp_path):
    shutil.copytree(finished_compiled.path, small / finished_compiled.path.name)
    written = write_report(small, tmp_path / "report", video_count=2)
    (video,) = (tmp_path / "report" / "videos").iterdir()
    assert video.read_bytes().startswith(b"GIF8")
    page = (tmp_path / "report" / "data" / "runs" / f"{video.stem}.js").read_text()
    assert f"videos/{video.name}" in page
    assert any("runs with a checkpoint that can be played: 1" in notice for notice in written.notices)


def test_the_best_seed_of_each_agent_is_played_first(tmp_path):
    from headrace.analysis.records import find_runs

    runs = [write_run(tmp_path, make_run(a, GAME, seed=s, steps=1e6), f) for a, s, f in
            (("dqn", 0, 1.0), ("dqn", 1, 2.0), ("qrc", 0, 9.0), ("qrc", 1, 8.0))]  # fmt: skip
    for run in runs:
        (run / "checkpoints").mkdir()
        (run / "checkpoints" / "step-000001000000.safetensors").touch()
    chosen = [(r.agent, r.seed) for r in videos.chosen(find_runs(tmp_path).records, 3)]
    assert chosen == [("dqn", 1), ("qrc", 0), ("dqn", 0)]


@pytest.mark.long
def test_two_thousand_runs_take_less_than_a_minute_of_one_core_and_a_gigabyte(tmp_path):
    names = [*VARIANTS, *ABLATIONS][:20]
    store(tmp_path / "runs", names, MINATAR, range(20), 1e6, rows=1000)
    assert len(list((tmp_path / "runs").iterdir())) == 2000
    words = ["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report"), "--quiet"]
    command = [sys.executable, "-m", "headrace", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=_on_one_core)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f"2,000 runs: {seconds:.1f} s of one core, {megabytes:.0f} MB")
    assert done.returncode == 0, done.stderr
    assert seconds < 60
    assert megabytes < 1000


def _on_one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def test_a_name_that_looks_like_a_formula_is_drawn_as_it_is(tmp_path):
    path = write_run(tmp_path / "runs", make_run("qrc", "minatar/breakout", steps=5e6), 1.0)
    facts = json.loads((path / "manifest.json").read_text())
    facts["identity"]["agent"] = {"part": "OfAnotherVersion"}
    facts["identity"]["env"]["name"] = "minatar/$_{"
    (path / "manifest.json").write_text(json.dumps({**facts, "agent": "$\\frac{$ \0"}))
    write_report(tmp_path / "runs", tmp_path / "report")
    assert "$\\frac{$" in (tmp_path / "report" / "index.html").read_text()
    learning_curve([("$\\frac{$", [1, 2], [1, 2])], tmp_path / "curve.png", "$\\frac{$")
