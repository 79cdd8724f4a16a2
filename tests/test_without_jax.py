"""Where JAX is absent: the learner trains, continues, evaluates and plays on environments of the host.

What needs an engine that is absent says so in one sentence.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from tests.small_runs import only_run

# Found by every Python process before anything else runs in it.
NO_JAX = "import sys; sys.modules['jax'] = sys.modules['jaxlib'] = None\n"

# An environment of Atari's shape; the emulator itself is an extra.
ATARI_SHAPED = """
import sys
from headrace.bench.playback import SPECS, HostPlayback
from headrace.envs import registry

form = registry.Form(lambda member, rules: HostPlayback(SPECS[member]))
registry.FAMILIES["playback"] = registry.Family(("atari",), registry.MinAtarRules(), {"host": form}, "played back")
from headrace.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that cannot import JAX."""
    return environment_with(tmp_path_factory.mktemp("no_jax"), NO_JAX)


@pytest.fixture(scope="module")
def without_learner() -> dict[str, str]:
    """The environment of processes for which the learner was not compiled."""
    return {**os.environ, "HEADRACE_LEARNER": "/nowhere"}


def environment_with(folder: Path, first: str) -> dict[str, str]:
    (folder / "sitecustomize.py").write_text(first)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def said(environment: dict[str, str], *words: str, program: tuple[str, ...] = ("-m", "headrace")) -> str:
    done = subprocess.run([sys.executable, *program, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_stand_in_does_refuse_jax(blocked: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", "import jax"], env=blocked, capture_output=True, text=True)
    assert "import of jax halted" in done.stderr


def test_a_run_on_minatar_from_its_first_step_to_its_video(blocked: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    train = ("train", "qrc+spr+orth", "minatar/breakout", "--steps", "2000", "--out", str(out), "--json")
    assert json.loads(said(blocked, *train))["status"] == "finished"
    run = RunFolder.read(only_run(out))
    assert (run.identity["engine"], run.identity["env"]["form"]) == ("learner", "host")
    assert run.manifest["machine"]["device"] == "cpu"
    assert json.loads(said(blocked, *train))["did_nothing"]
    assert "engine learner" in said(blocked, "show", str(run.path))
    assert json.loads(said(blocked, "eval", str(run.path), "--episodes", "3", "--json"))["episodes"] == 3
    assert "see README.md" in said(
        blocked, "export", str(run.path), "--to", "learner", "--out", str(tmp_path / "device")
    )
    video = tmp_path / "x.gif"
    said(blocked, "play", str(run.path), "--out", str(video), "--max-steps", "30")
    assert video.stat().st_size > 0


def test_a_vector_environment_of_gymnasium(blocked: dict[str, str], tmp_path: Path) -> None:
    words = ("train", "strq+spr", "gym/CartPole-v1", "--steps", "300", "--out", str(tmp_path))
    assert "finished 300 steps" in said(blocked, *words)
    assert "over 2 episodes" in said(blocked, "eval", str(only_run(tmp_path)), "--episodes", "2")


def test_images_of_ataris_shape(blocked: dict[str, str], tmp_path: Path) -> None:
    program = ("-c", ATARI_SHAPED)
    words = ("train", "qrc+spr+orth", "playback/atari", "--steps", "12", "--out", str(tmp_path))
    assert "finished 12 steps" in said(blocked, *words, program=program)
    evaluate = ("eval", str(only_run(tmp_path)), "--episodes", "1", "--max-steps", "5")
    assert "over 1 episode (" in said(blocked, *evaluate, program=program)
    video = tmp_path / "x.gif"
    play = ("play", str(only_run(tmp_path)), "--out", str(video), "--max-steps", "5")
    assert f"{video}: return" in said(blocked, *play, program=program)
    assert video.read_bytes().startswith(b"GIF8")


def test_a_sweep_and_its_workers(blocked: dict[str, str], tmp_path: Path) -> None:
    words = ("sweep", "dqn,strq", "minatar/breakout", "--seeds", "0:2", "--steps", "200", "--out", str(tmp_path))
    assert "4/4 done" in said(blocked, *words)


def refused(environment: dict[str, str], folder: Path, words: str) -> str:
    """What an error says that is all there is: nothing is printed, nothing is left."""
    folder.mkdir()
    command = [sys.executable, "-m", "headrace", *words.split()]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert list(folder.iterdir()) == []
    return done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "train qrc minatar/breakout --engine reference",
        "sweep strq minatar/breakout --engine reference",
        "sweep strq minatar/breakout --engine reference --form host",
        "sweep strq minatar/breakout --on fleet",
        "bench --on fleet --json x.json",
        "bench --engine reference --json x.json",
    ],
)
def test_without_jax_the_reference_engine_says_what_to_install(
    words: str, blocked: dict[str, str], tmp_path: Path
) -> None:
    message = refused(blocked, tmp_path / "here", words)
    assert message == "headrace: the reference engine needs jax: pip install 'headrace[jax]'\n"


def test_without_a_compiler_the_learner_says_what_to_install(without_learner: dict[str, str], tmp_path: Path) -> None:
    message = refused(without_learner, tmp_path / "here", "bench --engine learner --json x.json")
    assert message.startswith("headrace: the learner was not compiled: install a C compiler, then run pip install")


def test_a_benchmark_of_both_engines_measures_the_one_that_is_there(blocked: dict[str, str]) -> None:
    found = json.loads(said(blocked, "bench", "--variant", "strq", "--seconds", "0.05", "--json", "-"))
    assert (
        found["notes"][0]
        == "only the learner engine was measured: the reference engine needs jax: pip install 'headrace[jax]'"
    )
    assert (found["engine"], found["steps_per_s"] > 0) == ("learner", True)
    assert "ratio" not in found


def test_a_sweep_whose_runs_are_finished_needs_no_engine(
    blocked: dict[str, str], without_learner: dict[str, str], tmp_path: Path
) -> None:
    """Runs of an engine that is absent count as done where nothing is left to do."""
    words = ("sweep", "strq", "minatar/breakout", "--seeds", "0", "--steps", "20", "--out", str(tmp_path))
    assert "1/1 done" in said(blocked, *words)
    assert "1/1 done" in said(without_learner, *words)
