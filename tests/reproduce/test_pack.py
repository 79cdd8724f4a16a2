"""`python experiments/pack.py`, and what commands make of packed results."""

from __future__ import annotations

import json
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.analysis.latents import read_latents
from headrace.analysis.records import find_runs, read_record
from headrace.cli.main import main
from headrace.reproduce.plans import MINATAR
from headrace.runs import packs
from headrace.runs.folder import RunFolder
from headrace.training.run import make_run
from tests.analysis.synthetic import write_run

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "experiments/pack.py"))


def pack(*words: str | Path) -> None:
    SCRIPT["main"](list(map(str, words)))


def made(out: Path, final: float = 5.0, *, digest: str = "", run: dict[str, Any] | None = None, **options: Any) -> Path:
    """A run below a folder; with `digest`, as if other arithmetic had computed it."""
    wanted = {"steps": 1e6, "engine": "reference", **(run or {})}
    path = write_run(out, make_run("qrc", "minatar/breakout", **wanted), final, **options)
    return path.rename(path.with_name(path.name[:-8] + digest)) if digest else path


def held(folder: Path) -> list[str]:
    return sorted(packs.load(folder / packs.FILE))


def test_scores_are_kept_and_other_numbers_to_four_digits(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", 12.3456789, rows=1000, columns={"q": 1.23456789, "big": 123456789.5})
    curve = read_record(run).curve(("return", "q", "big"))
    pack(tmp_path / "runs", tmp_path)
    packed = read_record(tmp_path / run.name)
    assert packed.score is not None
    assert packed.score.mean == pytest.approx(12.3457, abs=1e-9)
    for name, values in packed.curve(("return", "q", "big")).items():
        np.testing.assert_allclose(values, curve[name], rtol=5e-6 if name in ("step", "return") else 5e-4)
    metrics = RunFolder.read(packed.path).metrics()
    assert metrics["step"].dtype == np.int64
    assert np.isfinite(metrics["return"]).all()
    assert {1.235} == set(metrics["q"][np.isfinite(metrics["q"])])
    assert np.isfinite(metrics["q"]).sum() == len(curve["q"]) < 400


def test_the_manifest_the_analysis_and_some_encoders_are_kept_word_for_word(tmp_path: Path) -> None:
    runs = [made(tmp_path / "runs", run={"seed": seed}) for seed in range(2)]
    for run in runs:
        (run / "latents.json").write_text("{ }\n")
        (run / "episodes.csv").write_text("step,return,length\n")
        (run / "snapshots").mkdir()
        (run / "snapshots/step-000000000000.safetensors").write_bytes(b"\x00\xff")
    pack(tmp_path / "runs", tmp_path)
    first, second = (tmp_path / run.name for run in runs)
    assert packs.listed(second) == ["latents.json", "manifest.json", "metrics.csv"]
    assert packs.listed(first) == [*packs.listed(second), "snapshots/step-000000000000.safetensors"]
    for name in set(packs.listed(first)) - {"metrics.csv"}:
        assert packs.read(first, name) == (runs[0] / name).read_bytes()


def test_a_run_without_a_row_is_packed(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", status="interrupted")
    (run / "metrics.csv").write_text("")
    pack(tmp_path / "runs", tmp_path)
    assert read_record(tmp_path / run.name) == replace(read_record(run), path=tmp_path / run.name)


def test_a_rerun_takes_the_old_ones_place_whatever_computed_it(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    old = made(tmp_path / "old", 1.0)
    other = made(tmp_path / "old", run={"seed": 1})
    pack(tmp_path / "old", tmp_path)
    new = made(tmp_path / "new", 2.0, run={"engine": "learner"}, digest="00000000")
    longer = made(tmp_path / "new", run={"steps": 5e6})
    unusual = made(tmp_path / "new", run={"settings": ("env.sticky=0",)})
    capsys.readouterr()
    pack(tmp_path / "new", tmp_path)
    assert held(tmp_path) == sorted(path.name for path in (new, other, longer, unusual))
    assert f"{new.name} replaces {old.name}\n" in capsys.readouterr().out


def test_where_engines_are_compared_a_run_replaces_its_own_engines(tmp_path: Path) -> None:
    both = [made(tmp_path / "old", run={"engine": engine}) for engine in ("learner", "reference")]
    pack(tmp_path / "old", tmp_path)
    new = made(tmp_path / "new", run={"engine": "learner"}, digest="00000000")
    pack(tmp_path / "new", tmp_path)
    assert held(tmp_path) == sorted([new.name, both[1].name])


def test_of_one_run_twice_the_later_is_packed(tmp_path: Path) -> None:
    names = [made(tmp_path / "runs", digest=digest).name for digest in ("ffffffff", "00000000")]
    for name, start in zip(names, ("2026-01-02", "2026-01-01"), strict=True):
        file = tmp_path / "runs" / name / "manifest.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "start": start}))
    pack(tmp_path / "runs", tmp_path)
    assert held(tmp_path) == names[:1]


def test_what_did_not_finish_replaces_nothing_that_did(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    done = made(tmp_path / "old", 1.0)
    pack(tmp_path / "old", tmp_path)
    made(tmp_path / "again", status="failed", share=0.2, digest="00000000")
    made(tmp_path / "again", status="failed", share=0.2)
    pack(tmp_path / "again", tmp_path)
    assert read_record(tmp_path / done.name).state == "finished"
    assert held(tmp_path) == [done.name]
    assert capsys.readouterr().out.count("left out: it is failed") == 2


def test_packs_are_merged_and_the_target_is_not_its_own_source(tmp_path: Path) -> None:
    pack(made(tmp_path / "one").parent, tmp_path / "a")
    pack(made(tmp_path / "two", run={"seed": 1}).parent, tmp_path / "b")
    one, two = (packs.load(tmp_path / name / packs.FILE) for name in "ab")
    pack(tmp_path / "b", tmp_path / "a")
    assert packs.load(tmp_path / "a" / packs.FILE) == {**one, **two}
    with pytest.raises(SystemExit):
        pack(tmp_path / "a", tmp_path / "a")


def test_a_packed_run_is_unpacked_once(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    name = made(tmp_path / "runs").name
    pack(tmp_path / "runs", tmp_path)
    pack("--unpack", tmp_path / name, tmp_path / "out")
    plain, packed = (read_record(path / name) for path in (tmp_path / "out", tmp_path))
    assert (plain.score, plain.manifest) == (packed.score, packed.manifest)
    with pytest.raises(SystemExit):
        pack("--unpack", tmp_path / name, tmp_path / "out")
    assert "exists: it is not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("", 2, "usage: "),
        ("runs", 2, "required: FOLDER"),
        ("nowhere out", 1, "pack.py: nowhere does not exist"),
        ("empty out", 1, "pack.py: no run was found in empty"),
        ("damaged out", 1, "metrics.csv is damaged"),
        ("ragged out", 1, "metrics.csv, line 3: 1 values for 6 columns"),
        ("runs file", 2, "file is a file, not a folder"),
        ("runs bad", 1, "records.jsonl.xz is damaged"),
        ("--unpack runs/none out", 1, "pack.py: runs/none is in no pack"),
    ],
)
def test_bad_input_is_a_message_and_leaves_nothing(
    words: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").touch()
    Path("bad").mkdir()
    Path("bad", packs.FILE).touch()
    made(Path("runs"))
    (made(Path("damaged")) / "metrics.csv").write_text("step,return\n1,x\n")
    table = made(Path("ragged")) / "metrics.csv"
    table.write_text(table.read_text().replace("\n10000,", "\n10000\n", 1))
    with pytest.raises(SystemExit) as ended:
        pack(*words.split())
    assert ended.value.code == status
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two packed runs of the paper's table, in a folder of results."""
    for number, run in enumerate(MINATAR.runs()[:2]):
        write_run(tmp_path / "runs", run, 1.0 + number)
    pack(tmp_path / "runs", tmp_path / "results/minatar")
    shutil.rmtree(tmp_path / "runs")
    return tmp_path / "results"


def test_commands_read_packed_results(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = MINATAR.runs()[1]
    path = results / "minatar" / run.name
    capsys.readouterr()
    assert main(["show", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["score"], shown["steps_done"]) == ("finished", 2.0, run.steps)
    assert main(["show", str(path)]) == 0
    assert "episodes  not kept\n" in capsys.readouterr().out
    assert main(["show", str(results / "minatar")]) == 1
    assert run.name in capsys.readouterr().err
    assert main(["reproduce", "minatar", "--status", "--json", "--results", str(results)]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 2
    assert main(["report", str(results), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report/index.html").read_text()
    assert all(record.name in page for record in find_runs(results).records)


def test_the_repositorys_results_are_small_and_each_run_is_there_once() -> None:
    files = [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert len(files) <= 60
    assert sum(path.stat().st_size for path in files) < 8e6
    records = [r for r in find_runs(ROOT / "results").records if r.path.parent.name != "engines"]
    assert len({r.place for r in records}) == len(records)
    assert any(read_latents(r.path) for r in records)
