"""`headrace latents` on a real run, on packed ones, and on what is neither."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from headrace.analysis.latents import NUMBERS, POINTS, analyse, read_latents, read_points, saved_encoders
from headrace.analysis.ranks import analyses, probe_table, rank_matrix, rank_table
from headrace.analysis.records import find_runs
from headrace.analysis.scores import groups
from headrace.analysis.trajectory import trajectory
from headrace.cli.latents import perplexities_of
from headrace.cli.main import main
from headrace.engines.jax.frozen import FrozenPolicy
from headrace.envs.registry import environment
from headrace.errors import BadSetting, HeadraceError
from headrace.runs import packs, safetensors_io
from headrace.runs.folder import RunFolder
from headrace.runs.snapshots import steps_of
from headrace.training.run import run_of

RECORDED = Path(__file__).parents[2] / "results" / "minatar_1m"
LENGTH = 600  # more than four stretches: one is held out


@pytest.fixture(scope="module")
def run(finished_compiled, tmp_path_factory) -> Path:
    """A copy of a finished run that has been analysed. Do not change it."""
    path = tmp_path_factory.mktemp("latents") / finished_compiled.path.name
    shutil.copytree(finished_compiled.path, path)
    analyse(path, length=LENGTH, perplexities=(5.0,))
    return path


def test_every_snapshot_is_analysed(run):
    found = read_latents(run)
    assert [at.step for at in found.steps] == sorted(steps_of(3000))
    assert found.observations == LENGTH
    for at in found.steps:
        assert 1 < at.effective_rank < at.features
        assert 1 < at.effective_rank_centred < at.features
        assert set(at.norms) >= {"encoder", "projection", "head", "h_encoder", "dynamics"}
        assert {"paddle", "ball"} <= set(at.probes)
    assert "projection" in found.last.silence  # the last one has a full checkpoint


def test_the_last_latents_are_the_engines(run):
    """The whole way from files against the engine's own: the effective rank of the last checkpoint."""
    folder = RunFolder.read(run)
    made = run_of(folder.identity)
    seen = trajectory(environment("minatar/breakout"), LENGTH)
    policy = FrozenPolicy(made.agent, seen.spec, folder.latest().arrays, eps=0.0, seed=0)
    sigma = np.linalg.svd(np.array([policy.latent(o) for o in seen.observations]), compute_uv=False)
    p = sigma / sigma.sum()
    assert read_latents(run).last.effective_rank == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-4)


def test_the_picture_has_a_point_an_observation(run):
    points = read_points(run)
    assert set(points) == {(step, 5.0) for step in steps_of(3000)}
    assert all(xy.shape == (LENGTH, 2) and np.isfinite(xy).all() for xy in points.values())


def test_what_is_written_is_what_is_read(run):
    facts = json.loads((run / NUMBERS).read_text())
    assert facts["steps"][-1]["effective_rank"] == read_latents(run).last.effective_rank


def test_ranks_and_probes_become_tables(run):
    (group,) = groups(find_runs(run).records)
    (agent,) = group.agents
    latents = analyses(group).whole
    assert rank_matrix(group, agent, latents)[0, 0] == read_latents(run).last.effective_rank
    assert len(rank_table([group]).rows) == 1
    assert {row["variable"] for row in probe_table([group]).data} >= {"paddle", "ball"}


def recorded(start: str) -> Path:
    """The repository's packed record whose name begins so."""
    return next(path for path in packs.runs(RECORDED / packs.FILE) if path.name.startswith(start))


def test_a_packed_run_is_analysed_once_it_is_unpacked(tmp_path):
    source = recorded("qrc_minatar-breakout_seed0")
    with pytest.raises(HeadraceError, match="--unpack"):
        analyse(source, length=LENGTH)
    path = tmp_path / source.name
    packs.unpack(source, path)
    for snapshot in sorted((path / "snapshots").iterdir())[:-1]:
        snapshot.unlink()  # to be done sooner
    found = analyse(path, length=LENGTH, perplexities=())
    assert [at.step for at in found.steps] == [1_000_000]
    assert found.last.features == 1024
    assert read_points(path) == {}


def test_the_command_prints_the_analysis_of_a_packed_run(tmp_path, capsys):
    source = recorded("qrc_minatar-breakout_seed0")
    pack = tmp_path / packs.FILE
    pack.write_bytes(packs.encode({source.name: packs.load(RECORDED / packs.FILE)[source.name]}))
    assert main(["latents", str(tmp_path / source.name), "--tsne", "none", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["steps"][-1]["effective_rank"] == read_latents(source).last.effective_rank
    assert main(["latents", str(tmp_path), "--tsne", "30"]) == 1
    assert "`python experiments/pack.py --unpack" in capsys.readouterr().err


def test_a_run_without_an_encoder_is_said():
    with pytest.raises(HeadraceError, match="no checkpoint and no snapshot"):
        analyse(recorded("qrc_minatar-breakout_seed1"))


def test_a_damaged_snapshot_is_passed_over(run, tmp_path):
    path = shutil.copytree(run, tmp_path / run.name)
    first = min((path / "snapshots").iterdir())
    first.write_bytes(first.read_bytes()[:100])
    encoders, notices = saved_encoders(path)
    assert len(encoders) == len(steps_of(3000)) - 1
    assert len(notices) == 1
    assert first.name in notices[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1}', '{"format": 1, "steps": [{}]}'])
def test_what_is_no_analysis_is_none(tmp_path, text):
    (tmp_path / NUMBERS).write_text(text)
    assert read_latents(tmp_path) is None


def test_what_are_no_points_are_none(tmp_path):
    assert read_points(tmp_path) == {}
    (tmp_path / POINTS).write_bytes(b"nothing")
    assert read_points(tmp_path) == {}
    (tmp_path / POINTS).write_bytes(safetensors_io.dumps({"episode": np.zeros(2, np.int32)}, {}))
    assert read_points(tmp_path) == {}


def test_the_command_prints_and_does_not_repeat_itself(run, tmp_path, capsys):
    path = shutil.copytree(run, tmp_path / run.name)
    words = ["latents", str(tmp_path), "--steps", str(LENGTH), "--tsne", "5"]
    before = (path / NUMBERS).stat().st_mtime_ns
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "eff. rank" in shown
    assert "paddle" in shown
    assert (path / NUMBERS).stat().st_mtime_ns == before
    assert main([*words[:-2], "--tsne", "none", "--again", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["perplexities"] == []
    assert (path / NUMBERS).stat().st_mtime_ns > before


def test_another_trajectory_is_another_analysis(run, tmp_path, capsys):
    path = shutil.copytree(run, tmp_path / run.name)
    words = ["latents", str(path), "--steps", str(LENGTH), "--tsne", "none"]
    before = read_latents(path)
    assert main([*words, "--seed", "7"]) == 0
    shown = capsys.readouterr()
    assert "policy uniformly random, seed 7" in shown.out
    assert read_latents(path).policy == "uniformly random, seed 7"
    assert read_latents(path).last.effective_rank != before.last.effective_rank
    assert main([*words, "--seed", "7"]) == 0
    assert capsys.readouterr().err == "", "what has been done is not done again"


def test_a_word_is_said_for_each_slow_picture(run, tmp_path):
    path, said = shutil.copytree(run, tmp_path / run.name), []
    analyse(path, length=60, perplexities=(5.0, 7.0), say=said.append)
    assert [words for words in said if "t-SNE, perplexity 7" in words] == [
        f"step {step:,}: t-SNE, perplexity 7" for step in sorted(steps_of(3000))
    ]


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main(["latents", str(tmp_path)]) == 1
    assert "no run was found" in capsys.readouterr().err
    assert main(["latents", str(tmp_path / "nowhere")]) == 1
    assert "does not exist" in capsys.readouterr().err
    for word in ("", "x", "0", "30,,50", "1e9"):
        with pytest.raises(BadSetting, match="--tsne takes perplexities"):
            perplexities_of(word)
