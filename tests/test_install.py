"""The package as others get it: an sdist, the wheel made from it, an empty environment far from the clone."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_MEGABYTES = 80  # with NumPy

BUILD = "import sys; from setuptools.build_meta import build_sdist; print(build_sdist(sys.argv[1]))"


def call(*command: str | Path, cwd: Path) -> str:
    """What the command prints; it finds nothing of this clone."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HEADRACE_LEARNER")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python_in(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin/python"


def copy_of_the_clone(folder: Path) -> Path:
    """The files that git knows, so that nothing else can be what makes it work."""
    for name in call("git", "ls-files", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((ROOT / name).read_bytes())
    return folder


def megabytes(folder: Path) -> float:
    """Of everything in an environment but the tools that installed it."""
    tools = ("pip", "setuptools", "wheel", "_distutils_hack")
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(f.stat().st_size for f in files if not f.relative_to(folder).parts[0].startswith(tools)) / 1e6


@pytest.mark.long
def test_an_sdist_makes_a_wheel_that_trains_in_an_empty_environment(tmp_path: Path) -> None:
    clone, dist = copy_of_the_clone(tmp_path / "clone"), tmp_path / "dist"
    builder = python_in(tmp_path / "builder")
    call(builder, "-m", "pip", "install", "-q", "setuptools>=77", cwd=tmp_path)
    sdist = dist / call(builder, "-c", BUILD, str(dist), cwd=clone).splitlines()[-1]
    call(builder, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(dist), str(sdist), cwd=tmp_path)
    (wheel,) = dist.glob("*.whl")

    python = python_in(tmp_path / "empty")
    call(python, "-m", "pip", "install", "-q", str(wheel), cwd=tmp_path)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    size = megabytes(tmp_path / f"empty/lib/{version}/site-packages")
    print(f"{size:.1f} MB installed, the wheel {wheel.stat().st_size / 1e6:.1f} MB")
    assert size <= MOST_MEGABYTES
    packages = {line.split("==")[0] for line in call(python, "-m", "pip", "freeze", cwd=tmp_path).splitlines()}
    assert {name.split(" ")[0] for name in packages} == {"headrace", "numpy"}

    headrace = python.with_name("headrace")
    said = call(headrace, "train", "strq", "minatar/breakout", "--steps", "2000", "--out", "runs", cwd=tmp_path)
    assert said.startswith("finished 2,000 steps: runs/strq_minatar-breakout_")
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert "over 2 episodes" in call(headrace, "eval", str(run), "--episodes", "2", cwd=tmp_path)
    assert "engine learner" in call(headrace, "show", str(run), cwd=tmp_path)
    call(headrace, "export", str(run), "--to", "learner", "--out", "exported", cwd=tmp_path)
    assert (tmp_path / "exported/learner/learner.c").is_file()
