"""With nothing but JAX and NumPy: everything works that needs no picture, and what needs one says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.runs.folder import RunFolder
from tests.small_runs import only_run, small_words

BARE = """
import sys

HIDDEN = {"matplotlib", "PIL", "minatar", "gymnasium", "safetensors", "rich", "seaborn", "cv2",
          "octax", "flax", "ale_py"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in HIDDEN else found(name, package)
from headrace.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def bare(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(programs)}
    return subprocess.run([sys.executable, "-c", BARE, *words], capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def trained(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    out = tmp_path_factory.mktemp("bare")
    done = bare(programs, *small_words(out, steps=1000))
    return next(path for path in out.iterdir() if path.is_dir()), done


def test_training_needs_no_other_package(trained: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    path, done = trained
    assert done.returncode == 0
    assert "finished 1,000 steps" in done.stdout
    assert "no learning curve was drawn: pip install 'headrace[plots]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (path / "curve.png").exists()


@pytest.mark.parametrize(("command", "says"), [("show", "finished"), ("eval", "over 2 episodes")])
def test_so_do_showing_and_evaluating(
    command: str, says: str, programs: Path, trained: tuple[Path, subprocess.CompletedProcess[str]]
) -> None:
    more = ("--episodes", "2") if command == "eval" else ()
    done = bare(programs, command, str(trained[0]), *more)
    assert done.returncode == 0
    assert says in done.stdout


def test_a_video_says_what_to_install(
    programs: Path, trained: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    video = bare(programs, "play", str(trained[0]), "--out", str(tmp_path / "x.gif"))
    said = "headrace: a video needs the pillow package: pip install 'headrace[plots]'\n"
    assert (video.returncode, video.stderr) == (1, said)


def test_the_reference_engine_is_taken_and_why_is_said(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LEARNER", "/nowhere")
    done = bare(programs, *small_words(tmp_path, engine="auto", steps=100))
    assert done.returncode == 0
    assert "the reference engine is used, because the learner was not compiled: install a C compiler" in done.stderr
    assert RunFolder.read(only_run(tmp_path)).identity["engine"] == "reference"
