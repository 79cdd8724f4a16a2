"""With NumPy alone, as `pip install headrace` leaves it: MinAtar trains; what needs more says so before any work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import headrace
from headrace.training.sinks import SINKS
from tests.small_runs import only_run

ROOT = Path(__file__).parents[1]

# Found by every Python process before anything else runs in it, the workers of a sweep included.
ALONE = """
import sys
from importlib.machinery import PathFinder

KNOWN = {*sys.stdlib_module_names, "numpy", "headrace", "sitecustomize"}

class Alone(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return PathFinder.find_spec(name, path, target) if name.partition(".")[0] in KNOWN else None

sys.meta_path[:] = [Alone if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that find no package but NumPy."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "sitecustomize.py").write_text(ALONE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(Path(headrace.__file__).parents[1])])}


def run(environment: dict[str, str], *words: str, **options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**environment, **options})


@pytest.fixture(scope="module")
def trained(
    alone: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    out = tmp_path_factory.mktemp("bare")
    done = run(alone, "train", "strq", "minatar/breakout", "--steps", "1300", "--out", str(out))
    return only_run(out), done


@pytest.mark.parametrize("package", ["jax", "matplotlib", "scipy", "minatar"])
def test_the_stand_in_hides_packages(package: str, alone: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {package}"], env=alone, capture_output=True, text=True)
    assert f"No module named '{package}'" in done.stderr


def test_training_needs_no_other_package(trained: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    path, done = trained
    assert done.returncode == 0
    assert done.stdout.startswith("finished 1,300 steps")
    assert done.stderr == "headrace: no learning curve will be drawn: pip install 'headrace[plots]'\n"
    assert not (path / "curve.png").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("show {run}", "status    finished"),
        ("eval {run} --episodes 2", "over 2 episodes"),
        ("doctor {run}", ""),
        ("variants", "qrc+spr+orth"),
        ("envs", "seaquest"),
        ("envs minatar/*", "10x10x10"),
        ("sweep strq minatar/asterix --seeds 0 --steps 50 --quiet --out {out}", "1/1 done"),
    ],
)
def test_so_does_what_needs_no_picture(
    words: str,
    says: str,
    alone: dict[str, str],
    trained: tuple[Path, subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    done = run(alone, *words.format(run=trained[0], out=tmp_path).split())
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("play {run} --out {out}/x.gif", "plots"),
        ("report {runs} --out {out}", "plots"),
        ("latents {run}", "analysis"),
        ("latents {run} --tsne none --quiet", "jax"),
        ("watch {runs}", "plots"),
        ("reproduce minatar --quick --out {out}", "plots"),
        ("export {run} --to onnx --out {out}", "onnx"),
        ("train qrc minatar/breakout --engine reference --out {out}", "jax"),
        ("train qrc+curl minatar/breakout --out {out}", "jax"),
        ("train qrc probe/ends --out {out}", "jax"),
        ("train qrc atari/pong --out {out}", "atari"),
        ("train qrc octax/pong --out {out}", "octax"),
        ("train qrc gym/CartPole-v1 --out {out}", "gym"),
        ("train qrc minatar/breakout --sink tensorboard --out {out}", "tensorboard"),
        ("sweep strq minatar/breakout --on fleet --out {out}", "jax"),
        ("sweep qrc+curl minatar/breakout --out {out}", "jax"),
        ("sweep strq gym/CartPole-v1 --out {out}", "gym"),
        ("sweep strq minatar/breakout --on ray --out {out}", "ray"),
        ("bench --engine reference --json -", "jax"),
    ],
)
def test_what_needs_more_says_what_to_install_and_writes_nothing(
    words: str,
    extra: str,
    alone: dict[str, str],
    trained: tuple[Path, subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    done = run(alone, *words.format(run=trained[0], runs=trained[0].parent, out=out).split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("headrace: ")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'headrace[{extra}]'" in done.stderr
    assert done.stderr.count("pip install") == 1
    assert not out.exists()


def test_the_table_of_environments_says_what_each_family_needs(alone: dict[str, str]) -> None:
    needs = [line for line in run(alone, "envs").stdout.splitlines() if "pip install" in line]
    assert [(line.split("/")[0], line[line.index("[") :]) for line in needs] == [
        ("atari", "[atari]'"), ("octax", "[octax]'"), ("probe", "[jax]'"), ("gym", "[gym]'")
    ]  # fmt: skip


def test_without_any_engine_both_remedies_are_said(alone: dict[str, str], tmp_path: Path) -> None:
    words = ("train", "qrc", "minatar/breakout", "--out", str(tmp_path / "out"))
    done = run(alone, *words, HEADRACE_LEARNER="/nowhere")
    assert done.returncode == 1
    assert "the learner was not compiled: install a C compiler" in done.stderr
    assert "the reference engine needs jax: pip install 'headrace[jax]'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_project_asks_for_numpy_alone_and_has_every_extra_that_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[^\w-]", needed)[0] for needed in project["dependencies"]] == ["numpy"]
    extras = project["optional-dependencies"]
    assert {"jax", "plots", "atari", "gym", "octax", "mujoco", "all", "dev"} <= extras.keys()
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"headrace\[(\w+)\]", text)} | SINKS.keys()
    assert named <= extras.keys()
    inner = {name for words in extras["all"] for name in re.findall(r"\w+", words.partition("[")[2])}
    assert {"jax", "plots", "atari", "gym", "octax", "mujoco"} <= inner <= extras.keys()
