"""The documentation site builds without a warning and alone; the code of its tutorials runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.agents.variants import KNOWN
from headrace.cli.main import main
from headrace.envs.gym import IMPORTS
from headrace.part import KINDS

ROOT = Path(__file__).parents[1]
TUTORIALS = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs/tutorials").glob("*.md") if path.stem != "index"),
]
FENCE = re.compile(r"^```(python|console)(?: title=\"(.+?)\")?\n(.*?)^```$", re.M | re.S)
STEPS = re.compile(r"(--steps |steps=)[\d_.ekM]+")


def few(text: str) -> str:
    """The same with so few steps that a test can take them."""
    return STEPS.sub(r"\g<1>1100", text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_asks_nothing_of_another_host(site: Path) -> None:
    asks = re.compile(r"""<(script|img|iframe|source|link)\b[^>]*(src|href)=["']?(https?:)?//""")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    assert [page.name for page in pages if asks.search(page.read_text("utf-8"))] == []


def test_formulas_are_in_the_page(site: Path) -> None:
    assert "<svg" in (site / "algorithms/qrc.html").read_text("utf-8")


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a reader is; what a page defines is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("CFLAGS", "-O1")  # compiled in a third of the time
    monkeypatch.setenv(IMPORTS, "")  # `--import` is told to workers by it
    modules, kinds = set(sys.modules), dict(KINDS)
    yield tmp_path
    KINDS.clear()
    KINDS.update(kinds)
    for name in {path.stem for path in tmp_path.glob("*.py")} & set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, empty_folder: Path) -> None:
    """From top to bottom, in an empty folder: files are written, commands given, Python executed."""
    names: dict[str, object] = {"__name__": page.stem}
    found = list(FENCE.finditer(page.read_text("utf-8")))
    assert found
    for kind, title, code in (block.groups() for block in found):
        if title:
            Path(title).write_text(few(code), "utf-8")
        elif kind == "python":
            exec(compile(few(code), page.name, "exec"), names)
        else:
            for line in re.findall(r"^\$ (.+)$", code, re.M):
                give(few(line), empty_folder)


def give(line: str, folder: Path) -> None:
    program, *words = shlex.split(line)
    if program == "headrace":
        paths = ((map(str, folder.glob(word))) if "runs/" in word else [word] for word in words)
        assert main([word for found in paths for word in found]) == 0, line
    elif program == "make":
        subprocess.run([program, *words], check=True)


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs/reference/python.md").read_text("utf-8")
    assert [name for name in headrace.__all__ if f"::: headrace.{name}\n" not in page] == []


def test_every_agent_with_a_name_is_told_of() -> None:
    page = (ROOT / "docs/algorithms/index.md").read_text("utf-8")
    assert [name for name in KNOWN if f"`{name}`" not in page] == []


def test_the_version_to_cite_is_this_one() -> None:
    assert f"\nversion: {headrace.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
