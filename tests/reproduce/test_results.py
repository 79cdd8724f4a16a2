"""The repository's pages, tables and figures are what `python experiments/results.py` makes of its records."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headrace.runs import packs
from headrace.sweep.plan import grid

ROOT = Path(__file__).parents[2]
REMEDY = "run `python experiments/results.py` after records have changed"
NOT_RESULTS = re.compile(r"https?://\S+|`[^`]*`|\b\d+\.\d+\.\d+\b")


@pytest.fixture(scope="module")
def results() -> Any:
    """experiments/results.py as a module, which finds what lies beside it as a script does."""
    sys.path.insert(0, str(ROOT / "experiments"))
    try:
        import results as script

        yield script
    finally:
        sys.path.pop(0)
        for name in ("results", "result_tables", "readings"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def recorded(results: ModuleType) -> Any:
    """What the repository's records hold, each of it worked out once."""
    return results.Results(ROOT)


@pytest.fixture(scope="module")
def made(results: ModuleType, recorded: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made")
    results.write_all(recorded, out)
    return out


@pytest.mark.parametrize("page", ["docs/results.md", "docs/parity.md", "results/README.md", "README.md"])
def test_every_block_of_a_page_is_what_the_records_give(page: str, made: Path) -> None:
    assert "written by experiments/results.py" in (ROOT / page).read_text()
    assert (ROOT / page).read_text() == (made / page).read_text(), REMEDY


def test_every_table_is_what_the_records_give(made: Path) -> None:
    names = {path.name for path in (made / "results/tables").iterdir()}
    assert names == {path.name for path in (ROOT / "results/tables").iterdir()}, REMEDY
    assert {"readings.csv", "variants_1m.csv", "claims.csv", "sources.csv", "updates_1m.csv", "updates_5m.csv"} <= names
    for name in names:
        assert_equal_tables(made / "results/tables" / name, ROOT / "results/tables" / name)


def assert_equal_tables(ours: Path, theirs: Path) -> None:
    """Equal words, and numbers equal but for the last digits, which may differ between machines."""
    first, second = (list(csv.reader(path.read_text().splitlines())) for path in (ours, theirs))
    assert [len(row) for row in first] == [len(row) for row in second], f"{theirs}: {REMEDY}"
    for b, a in zip((x for row in first for x in row), (x for row in second for x in row), strict=True):
        assert a == b or near(a, b), f"{theirs}: {a} is now {b}; {REMEDY}"


def near(first: str, second: str) -> bool:
    try:
        return float(first) == pytest.approx(float(second), rel=1e-6, abs=1e-9)
    except ValueError:
        return False


def test_every_figure_is_what_the_records_give(made: Path) -> None:
    names = {path.name for path in (made / "docs/results").iterdir()}
    assert names == {path.name for path in (ROOT / "docs/results").iterdir()}, REMEDY
    shown = set(re.findall(r"\]\(results/(\w+\.png)\)", (ROOT / "docs/results.md").read_text()))
    assert shown <= names
    for name in names:
        ours, theirs = (np.asarray(Image.open(top / "docs/results" / name).convert("L"), float) for top in (made, ROOT))
        assert ours.shape == theirs.shape, f"{name}: {REMEDY}"
        assert np.abs(ours - theirs).mean() < 1.0, f"{name}: {REMEDY}"  # fonts may be drawn a little otherwise


@pytest.mark.parametrize("page", ["docs/results.md", "results/README.md"])
def test_no_measured_number_is_typed_by_hand(page: str, results: ModuleType) -> None:
    by_hand = results.MARK.sub("", (ROOT / page).read_text())
    assert re.findall(r"\d+\.\d+", NOT_RESULTS.sub("", by_hand)) == []


def test_every_block_that_a_page_asks_for_is_known(results: ModuleType) -> None:
    for page in results.PAGES:
        text = (ROOT / page).read_text()
        asked = re.findall(r"<!-- (\w+): written by", text)
        assert set(asked) <= set(results.BLOCKS)
        assert len(asked) == len(results.MARK.findall(text)), f"{page}: a block has no end"


def test_a_page_follows_its_records(results: ModuleType, tmp_path: Path) -> None:
    """Without one run, the block is another."""
    whole = packs.load(ROOT / "results/minatar_1m" / packs.FILE)
    runs = {name: files for name, files in whole.items() if name.startswith("qrc_") and "Clip" not in str(files)}
    pack = tmp_path / "results/minatar_1m" / packs.FILE
    pack.parent.mkdir(parents=True)
    pack.write_bytes(packs.encode(runs))
    page = "<!-- held: written by experiments/results.py -->\nold\n<!-- end of held -->\nby hand\n"
    before = results.filled(page, results.Results(tmp_path))
    assert before.endswith("<!-- end of held -->\nby hand\n")
    assert "old" not in before
    del runs[next(name for name in runs if name.startswith("qrc_minatar-freeway_seed1_"))]
    pack.write_bytes(packs.encode(runs))
    after = results.filled(page, results.Results(tmp_path))
    count = [int(re.search(r"variants, (\d+) finished runs of 1M", text)[1]) for text in (before, after)]  # type: ignore[index]
    assert count[0] - count[1] == 1


def test_every_command_of_the_sources_has_their_runs() -> None:
    """As typed, each names as many runs as its line has, and the same agent."""
    with (ROOT / "results/tables/sources.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    for row in rows:
        words = shlex.split(row["command"])
        assert words[:2] == ["headrace", "sweep"]
        options = dict(zip(words[4::2], words[5::2], strict=True))
        settings = [value for name, value in zip(words[4::2], words[5::2], strict=True) if name == "--set"]
        runs = grid(words[2], words[3], seeds=options["--seeds"], steps=float(options["--steps"]), settings=settings)
        assert {run.steps for run in runs} == {int(row["steps"])}
        assert len(runs) >= int(row["runs"])


REWRITE = "the records no longer say this: rewrite 'What shows at this length' in docs/results.md, and this test"


def rows_of(recorded: Any, name: str) -> list[Any]:
    return next(table for table in recorded.own_tables if table.name == name).data


def test_the_claims_stand_as_the_prose_says(recorded: Any) -> None:
    found = {judged.claim: judged.verdict for judged in recorded.claims}
    said = {
        "SPR improves QRC: qrc < qrc+spr": "does not hold",
        "orth improves it further: qrc+spr < qrc+spr+orth": "not enough runs",
        "SPR alone harms Stream Q: strq+spr < strq": "holds",
        "so does SPR with orth: strq+spr+orth < strq": "holds",
        "SPR raises the effective rank under DQN": "holds",
        "RL and SPR updates are near orthogonal under QRC": "holds",
    }
    assert {claim: found[claim] for claim in said} == said, REWRITE


def test_what_the_prose_says_of_the_papers_length(recorded: Any) -> None:
    found = {judged.claim: judged.verdict for judged in recorded.long_claims}
    assert found["both together improve it: qrc < qrc+spr+orth"] == "does not hold", REWRITE
    rows = {(row["agent"], row["env"]): row for row in rows_of(recorded, "variants_5m_unguarded")}
    shares = {
        game: rows["qrc+spr+orth", f"minatar/{game}"]["mean"] / rows["qrc", f"minatar/{game}"]["mean"]
        for game in ("asterix", "breakout", "seaquest", "space_invaders")
    }
    assert shares.pop("space_invaders") < 0.4, REWRITE
    assert all(0.9 < share < 1.1 for share in shares.values()), REWRITE
    assert rows["qrc+spr+orth", "minatar/freeway"]["min"] == 0, REWRITE
    invaders = (rows[agent, "minatar/space_invaders"] for agent in ("qrc+spr+orth", "qrc"))
    assert next(invaders)["max"] < next(invaders)["min"], REWRITE


def test_the_guard_makes_no_difference_on_minatar(recorded: Any) -> None:
    means = [rows_of(recorded, name) for name in ("guarded_1m", "variants_1m")]
    ours, without = (next(r for r in rows if (r["agent"], r["env"]) == ("qrc", "mean")) for rows in means)
    assert ours["mean_low"] < without["mean"] < ours["mean_high"], REWRITE


def test_what_the_prose_says_without_a_verdict(recorded: Any) -> None:
    means = {row["agent"]: row["mean"] for row in rows_of(recorded, "variants_1m") if row["env"] == "mean"}
    assert means["dqn+spr"] < means["dqn"], REWRITE
    assert means["strq+spr+orth2"] < min(means["strq+spr"], means["strq"]), REWRITE
    cosines = {row["agent"]: row["value"] for row in rows_of(recorded, "updates_1m") if row["quantity"] == "cosine"}
    assert all(0 <= cosines[agent] < 0.1 for agent in ("strq+spr", "strq+spr+orth", "strq+spr+orth2")), REWRITE


def test_weaker_spr_scores_no_lower_and_no_weight_is_separated_from_qrc(recorded: Any) -> None:
    rows = sorted(rows_of(recorded, "weights"), key=lambda row: float(row["weight"]))
    sizes, returns = [row["size"] for row in rows], [row["mean_return"] for row in rows]
    assert sizes == sorted(sizes), REWRITE
    assert sizes[-1] > 1, REWRITE
    assert np.nanmin(returns) == returns[-1], REWRITE
    assert {row["verdict"] for row in rows} == {"not separated"}, REWRITE


def test_readings_with_weaker_spr_score_higher_on_space_invaders(recorded: Any) -> None:
    group = recorded.short
    invaders, freeway = (group.envs.index(f"minatar/{game}") for game in ("space_invaders", "freeway"))
    default = group.matrix("qrc+spr+orth")[:, invaders]
    both = np.isfinite(default)
    assert both.sum() == 3, REWRITE
    for agent in ("qrc+spr+orth aux.gate=Every(n=6)", "released-four"):
        assert (group.matrix(agent)[both, invaders] > default[both]).all(), REWRITE
        assert (group.matrix(agent)[:, freeway] == 0).sum() == 1, REWRITE


def test_what_the_prose_says_of_the_papers_level(recorded: Any) -> None:
    assert 52.7 < np.nanmean(recorded.long_bare.matrix("qrc+swift")) < 57, REWRITE
    rows = {(row["agent"], row["env"]): row for row in rows_of(recorded, "variants_5m")}
    for ours in (rows["qrc", "mean"], rows["strq", "mean"]):
        assert ours["mean_low"] < ours["paper_mean"] < ours["mean_high"], REWRITE
    lost = recorded.long.matrix("qrc")[:, 2]
    assert rows["qrc", "minatar/freeway"]["min"] == 0, REWRITE
    assert (lost == 0).sum() == 1, REWRITE


def test_the_loss_and_the_learning_rate_are_where_the_prose_has_them(recorded: Any) -> None:
    scores = {(row["agent"], row["env"]): row["mean"] for row in rows_of(recorded, "variants_1m")}
    games = [env for agent, env in scores if agent == "qrc" and env != "mean"]
    for base in ("dqn", "strq", "qrc"):
        lost = {env: scores[base, env] - scores[f"{base}+spr", env] for env in games}
        assert max(lost, key=lambda env: lost[env]) == "minatar/space_invaders", REWRITE
    readings = rows_of(recorded, "readings")
    best = max((row for row in readings if row["runs"]), key=lambda row: row["mean_return"])
    assert best["agent"] == "qrc+swift", REWRITE
    spr = next(
        row for row in readings if (row["question"], row["variant"], row["agent"]) == ("weight", "qrc+spr", "qrc")
    )
    assert best["difference"] > abs(spr["difference"]), REWRITE
