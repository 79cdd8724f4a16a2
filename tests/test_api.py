"""The names that a user has, for people, editors and type checkers alike."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

SOURCE = Path(headrace.__file__)
USER = '''
"""What a user's project may look like."""

import numpy as np

import headrace


def best_of(path: str) -> int:
    policy = headrace.load(path, epsilon=0.1)
    obs = np.zeros((10, 10, 4), np.float32)
    values: np.ndarray = policy.q(obs)
    return policy(obs) + int(values.argmax())


def loop(steps: int) -> float:
    agent: headrace.Agent = headrace.tweak(headrace.agent("qrc+spr"), "td.lr=1e-3")
    env, total = headrace.make_env("minatar/breakout"), 0.0
    engine = headrace.Engine(agent, env.spec, engine="auto", steps=steps)
    engine.begin(env.reset(0))
    while engine.step < steps:
        episode = engine.learn(env.step(engine.action))
        total += episode.episode_return if episode is not None else 0.0
    return total


def whole() -> str:
    try:
        trained = headrace.train("strq", "gym/CartPole-v1", steps=1e5, settings=["td.lamda=0.9"])
        again: headrace.Engine = headrace.load(trained.path, learning=True)
        print(again.step, headrace.evaluate(trained.path, episodes=3).returns.mean())
    except headrace.Diverged as error:
        return f"{error.quantity} at {error.step}"
    return trained.status
'''


def test_every_public_name_is_there_documented_and_known_to_type_checkers():
    imports = (node for node in ast.walk(ast.parse(SOURCE.read_text())) if isinstance(node, ast.ImportFrom))
    taken = {alias.asname or alias.name for node in imports for alias in node.names}
    typed = taken - {"Any", "annotations", "import_module"}
    assert typed == set(headrace.__all__) == set(headrace._HOME)
    assert all(getattr(headrace, name).__doc__ for name in headrace.__all__)
    assert (SOURCE.parent / "py.typed").exists()


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        headrace.trian  # noqa: B018


@pytest.mark.long
def test_a_user_s_project_passes_the_strictest_type_checks(tmp_path):
    pytest.importorskip("mypy")
    wrong = USER.replace('"strq", "gym', '3, "gym').replace("total += episode", "total = engine")
    for name, text in (("user.py", USER), ("wrong.py", wrong)):
        (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "user.py", "wrong.py"]
    place = {**os.environ, "MYPYPATH": str(SOURCE.parents[1])}
    done = subprocess.run(words, cwd=tmp_path, env=place, capture_output=True, text=True, check=False)
    *errors, last = done.stdout.splitlines()
    assert last.startswith("Found 2 errors in 1 file"), done.stdout
    assert 'wrong.py:23: error: "Engine" has no attribute "episode_return"' in errors[0]
    assert 'wrong.py:29: error: Argument 1 to "train" has incompatible type "int"' in errors[1]
