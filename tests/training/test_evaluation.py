"""A frozen agent: the same episodes each time, and nothing in its folder changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.errors import BadSetting, HeadraceError
from headrace.runs.folder import RunFolder
from headrace.training import evaluation, video
from headrace.training.evaluation import evaluate, play
from headrace.training.run import run_of
from headrace.training.single import Trained
from tests.small_runs import StopAt, contents, small_train


def test_evaluating_twice_gives_the_same_and_changes_nothing(finished: Trained) -> None:
    before = contents(finished.path)
    first = evaluate(finished.path, episodes=12, epsilon=0.8, max_steps=500)
    second = evaluate(finished.path, episodes=12, epsilon=0.8, max_steps=500)
    assert first == second
    assert contents(finished.path) == before
    assert first.step == finished.steps_done
    assert len(first.episodes) == 12
    assert len({episode.length for episode in first.episodes}) > 1  # each episode has a seed of its own


def test_another_seed_gives_other_episodes(finished: Trained) -> None:
    lengths = [
        [episode.length for episode in evaluate(finished.path, episodes=12, epsilon=1, seed=seed).episodes]
        for seed in (0, 100)
    ]
    assert lengths[0] != lengths[1]


def test_every_episode_has_a_seed_of_its_own(finished_compiled: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, seeds = evaluation.begun, []
    monkeypatch.setattr(evaluation, "begun", lambda env, seed: seeds.append(seed) or begun(env, seed))
    evaluate(finished_compiled.path, episodes=3, seed=7, max_steps=1)
    assert seeds == [7, 8, 9]


def test_epsilon_is_the_share_of_random_actions(finished: Trained) -> None:
    greedy = evaluate(finished.path, episodes=12, epsilon=0, max_steps=300)
    random = evaluate(finished.path, episodes=12, epsilon=1, max_steps=300)
    assert [e.length for e in greedy.episodes] != [e.length for e in random.episodes]


def test_an_episode_stopped_at_the_limit_is_counted(finished: Trained) -> None:
    found = evaluate(finished.path, episodes=3, epsilon=1, max_steps=4)  # a ball takes longer to reach the floor
    assert [episode.length for episode in found.episodes] == [4, 4, 4]
    assert found.cut == 3
    assert evaluate(finished.path, episodes=3, epsilon=1).cut == 0


def test_the_episodes_of_a_frozen_agent_are_those_of_its_q_values(finished: Trained) -> None:
    """Epsilon 0 by hand: standardise with the saved statistics, take the best action, learn nothing."""
    from headrace.definition.networks import layout_of, q_values
    from headrace.training.evaluation import host_of

    folder = RunFolder.read(finished.path)
    run, checkpoint = run_of(folder.identity), folder.latest()
    assert checkpoint is not None
    saved = checkpoint.arrays
    layers: dict[str, dict[str, np.ndarray]] = {"encoder": {}, "projection": {}, "head": {}}
    for name, array in saved.items():
        module, _, which = name.removeprefix("stream/agent/params/").partition("/0/")
        if name.startswith("stream/agent/params/") and module in layers:
            layers[module][which] = array
    mean, squares, count = (saved[f"stream/obs_scale/{part}"] for part in ("mean", "squares", "count"))
    env = host_of(run)
    layout = layout_of(run.agent, env.spec.observation_shape, env.spec.n_actions)
    obs, length, last = env.reset(7), 0, False
    while not last:
        standard = (obs - mean) / np.sqrt(squares / (count - 1) + 1e-8)
        step = env.step(
            int(
                np.argmax(
                    q_values(layout, {name: [layer] for name, layer in layers.items()}, standard.astype(np.float32))
                )
            )
        )
        obs, length, last = step.obs, length + 1, bool(step.last)
    assert evaluate(finished.path, episodes=1, epsilon=0, seed=7).episodes[0].length == length


def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_it_played(finished: Trained, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.path, copy)
    older, newest = sorted((copy / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    found = evaluate(copy, episodes=1)
    assert f"step-{found.step:012d}.safetensors" == older.name
    assert len(found.notices) == 1
    assert newest.name in found.notices[0]
    older.write_bytes(b"")
    with pytest.raises(HeadraceError, match="no checkpoint that can be used: checkpoint step-"):
        evaluate(copy, episodes=1)


def test_a_video_without_pillow_says_what_to_install(finished: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.training.video.find_spec", lambda name: None)
    monkeypatch.setattr("headrace.training.video.which", lambda name: None)
    with pytest.raises(HeadraceError, match=r"pip install 'headrace\[plots\]', or name a .png"):
        play(finished.path, "x.gif")
    assert video.beside(finished.path, 7).suffix == ".png"


def test_an_animated_png_needs_nothing_and_loses_nothing(tmp_path: Path) -> None:
    frames = list(np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), np.uint8))
    video.write(frames, tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as found:
        assert getattr(found, "n_frames", 1) == 3
        for i, frame in enumerate(frames):
            found.seek(i)
            assert (np.asarray(found.convert("RGB")) == frame).all()


@pytest.mark.parametrize("suffix", [".gif", ".webp", ".png"])
def test_a_video_shows_every_step(suffix: str, finished_compiled: Trained, tmp_path: Path) -> None:
    out = tmp_path / "new" / f"episode{suffix}"
    before = contents(finished_compiled.path)
    found = play(finished_compiled.path, out, epsilon=0.5)
    with Image.open(out) as opened:
        frames = getattr(opened, "n_frames", 1)
        opened.seek(frames - 1)
        picture = np.asarray(opened.convert("RGB"))
    assert frames == found.episodes[0].length > 5  # Breakout's ball moves on every step
    assert picture.shape[0] >= 100
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) >= 4  # background, bricks, ball, paddle
    assert contents(finished_compiled.path) == before


def test_a_video_of_the_package_form(programs: Path, tmp_path: Path) -> None:
    run = small_train(tmp_path, form="host", progress=StopAt(20))
    found = headrace.play(run.path, tmp_path / "x.gif", max_steps=6, epsilon=1)
    with Image.open(tmp_path / "x.gif") as opened:
        assert getattr(opened, "n_frames", 1) == found.episodes[0].length == 6


def test_what_cannot_be_evaluated_says_why(finished_compiled: Trained, tmp_path: Path) -> None:
    path = finished_compiled.path
    for changes, message in (
        ({"epsilon": 1.5}, "epsilon must be between 0 and 1, got 1.5"),
        ({"epsilon": float("nan")}, "epsilon must be between 0 and 1, got nan"),
        ({"episodes": 0}, "episodes must be a whole number from 1 to 1,000,000, got 0"),
        ({"episodes": 2.5}, "episodes must be a whole number .* got 2.5"),
        ({"max_steps": 0}, "max_steps must be a whole number .* got 0"),
        ({"seed": -1}, "seed must be a whole number .* got -1"),
        ({"seed": 2**40}, "seed must be a whole number"),
    ):
        with pytest.raises(BadSetting, match=message):
            evaluate(path, **changes)
    with pytest.raises(BadSetting, match=r"must end in .mp4, .gif, .webp, .png, got 'x.avi'"):
        play(path, "x.avi")
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="cannot write"):
        play(path, tmp_path / "file" / "x.gif", max_steps=2)


def test_a_run_without_a_checkpoint_cannot_be_evaluated(finished_compiled: Trained, tmp_path: Path) -> None:
    identity = RunFolder.read(finished_compiled.path).identity
    RunFolder.open(tmp_path / "young", identity, {}).close()
    for call in (lambda: evaluate(tmp_path / "young"), lambda: play(tmp_path / "young", tmp_path / "x.gif")):
        with pytest.raises(HeadraceError, match="it has none yet: train it for a while first"):
            call()
    with pytest.raises(HeadraceError, match="is not a run"):
        evaluate(tmp_path)
