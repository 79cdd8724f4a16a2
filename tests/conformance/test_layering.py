"""Imports go one way: nothing upstream knows what is downstream."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import headrace

ROOT = Path(headrace.__file__).parent
FILES = {
    ".".join(("headrace", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}

# A package or module, and all that it may import of headrace. Files that are not named here may import all but `cli`.
MAY_IMPORT = {
    "errors": (),
    "part": ("errors",),
    "agents": ("agents", "part", "errors"),
    "normalize": ("agents.observations",),  # what is done to an observation, beside how it is standardised
    "policy": ("agents", "normalize", "errors"),
    "envs": ("envs", "learner", "part", "errors"),
    "learner": ("errors",),
    "definition": ("definition", "agents", "part", "envs.base", "errors"),
    "engines.base": ("envs.base", "errors"),
    "engines.metrics": (),
    "engines.jax": (
        "engines.jax", "engines.base", "engines.metrics", "definition", "agents", "part", "normalize", "envs", "errors",
    ),
    "engines.learner": (
        "engines.learner", "engines.base", "engines.metrics", "learner", "agents", "part", "normalize", "envs",
        "errors",
    ),
    "runs": ("runs", "errors"),
    "training.health": ("agents",),
    "export": (
        "export", "engines.learner", "learner", "training.run", "training.evaluation", "runs",
        "agents", "normalize", "envs", "errors",
    ),
    # Reads files. `run` is what an identity stands for, `evaluation` what makes a video.
    "analysis": (
        "analysis", "runs", "agents", "part", "envs", "errors", "normalize", "policy", "training.health",
        "training.run", "training.evaluation", "training.curve",
    ),
}  # fmt: skip


@cache
def imports(name):
    """Everything that a file imports, at its top or inside a function, as full module names."""
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = inner & FILES.keys()
            found |= modules or {str(node.module)}
    return found - {"headrace"}  # the bare package is only its version


def inside(name, package):
    return name == f"headrace.{package}" or name.startswith(f"headrace.{package}.")


def layer_of(name):
    return next((layer for layer in MAY_IMPORT if inside(name, layer)), None)


@pytest.mark.parametrize("name", sorted(n for n in FILES if layer_of(n)))
def test_a_file_imports_its_own_layer_and_those_upstream_only(name):
    allowed = MAY_IMPORT[layer_of(name)]
    own = {i for i in imports(name) if i.startswith("headrace")}
    assert {i for i in own if not any(inside(i, a) for a in allowed)} == set()


@pytest.mark.parametrize("layer", ["agents", "part", "errors", "runs"])
def test_agents_and_records_import_no_jax(layer):
    frameworks = {"jax", "jaxlib"} | ({"numpy"} if layer in ("agents", "part", "errors") else set())
    for name in (n for n in FILES if inside(n, layer)):
        assert {i.split(".")[0] for i in imports(name)} & frameworks == set(), name


def test_the_definition_can_be_read_in_an_hour():
    lines = [len(path.read_text().splitlines()) for n, path in FILES.items() if inside(n, "definition")]
    assert sum(lines) <= 2050


def test_the_learner_needs_no_jax():
    mine = [n for n in FILES if inside(n, "engines.learner") or inside(n, "learner")]
    assert mine
    for name in mine:
        assert {i.split(".")[0] for i in imports(name)} & {"jax", "jaxlib"} == set(), name


def test_rules_filters_and_merges_call_no_network():
    """They are arithmetic on values. Of `networks` they know the type of a tree of parameters."""
    here = "headrace.definition"
    rules = [n for n in FILES if n.startswith(f"{here}.rules.")]
    known = {"Value", "Values", "value_modules", "actor_modules", "next_value"}
    assert rules
    for name in (*rules, f"{here}.td", f"{here}.filters", f"{here}.merging"):
        nodes = [n for n in ast.walk(ast.parse(FILES[name].read_text())) if isinstance(n, ast.ImportFrom)]
        taken = {(n.module, alias.name) for n in nodes for alias in n.names}
        assert {what for module, what in taken if module == f"{here}.networks"} <= {"ByAction", "Modules"}, name
        assert {what for module, what in taken if module == f"{here}.evaluate"} <= known, name


def test_only_the_entry_point_imports_the_command_line():
    assert [n for n in FILES if "headrace.cli.main" in imports(n)] == ["headrace.__main__"]


def test_no_file_imports_itself_through_others():
    """Packages' own pages, which only gather names, are left out."""
    plain = {n for n, path in FILES.items() if path.name != "__init__.py"}
    TopologicalSorter({n: imports(n) & plain for n in plain}).prepare()


@pytest.mark.parametrize("layer", ["agents", "part", "errors", "runs"])
def test_importing_it_loads_no_jax(layer):
    code = f"import sys, headrace.{layer}; sys.exit('jax' in sys.modules or 'headrace.engines' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
