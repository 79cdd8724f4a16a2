"""The trained agents that come with the package."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.runs import packs, zoo
from headrace.training.run import run_of
from tests.cli.test_cli import said

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def listed() -> list[dict[str, object]]:
    from headrace.cli.zoo import describe

    return [describe(f"zoo/{name}") for name in zoo.names()]


def test_ten_agents_in_three_megabytes(listed: list[dict[str, object]]) -> None:
    assert len(listed) == 10
    assert (zoo.HOME / packs.FILE).stat().st_size <= MOST_BYTES
    assert {agent["env"] for agent in listed} >= {f"minatar/{g}" for g in ("asterix", "breakout", "freeway")}


def test_each_says_what_it_is_and_what_trains_it(listed: list[dict[str, object]]) -> None:
    for agent in listed:
        folder = headrace.RunFolder.read(str(agent["name"]))
        assert folder.status == "finished"
        assert agent["score"] is not None
        assert agent["episodes"] == 30
        assert folder.manifest["changed"] <= 0.005, "of the actions, by float16"
        words = shlex.split(str(agent["command"]))
        assert words[:2] == ["headrace", "train"]
        assert words[3] == agent["env"]
        checkpoint = folder.latest()
        assert checkpoint is not None
        assert checkpoint.step == agent["steps"]


def test_the_command_stands_for_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as the command line reads it, it names the same agent, environment, seed and steps."""
    taken = {}
    monkeypatch.setattr(
        "headrace.training.single.train", lambda *words, **more: taken.update(more, words=words) or 1 / 0
    )
    run = run_of(headrace.RunFolder.read("zoo/cartpole-spr").identity)
    with pytest.raises(ZeroDivisionError):
        main(shlex.split(run.command)[1:])
    agent, env = taken["words"]
    assert headrace.tweak(headrace.agent(agent), *taken["settings"]) == run.agent
    assert (env, taken["seed"], taken["steps"]) == (run.env.name, run.seed, run.steps)


def test_one_plays_far_better_than_chance(capsys: pytest.CaptureFixture[str]) -> None:
    """Random play scores about 0.4 on Breakout; an episode of the agent may be short, five are not."""
    found = json.loads(said(capsys, "eval", "zoo/breakout", "--episodes", "5", "--json"))
    assert found["mean"] > 3
    policy, env = headrace.load("zoo/breakout"), headrace.make_env("minatar/breakout")
    assert np.isfinite(policy.q(env.reset(0))).all()


def test_it_is_shown_as_a_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    table = said(capsys, "zoo")
    assert all(f"zoo/{name} " in table for name in zoo.names())
    shown = said(capsys, "show", "zoo/breakout", "zoo/cartpole")
    assert "qrc+swift on minatar/breakout, seed 0" in shown
    assert "command   headrace train strq gym/CartPole-v1 --seed 0 --steps 300k" in shown


def test_what_it_cannot_do_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cannot = "only its policy was kept, which cannot learn: `headrace train qrc+swift minatar/breakout "
    with pytest.raises(headrace.HeadraceError, match=re.escape(cannot)):
        headrace.load("zoo/breakout", learning=True)
    assert cannot in said(capsys, "export", "zoo/breakout", "--to", "learner", "--out", str(tmp_path / "c"), status=1)
    assert "did you mean 'breakout'?" in said(capsys, "eval", "zoo/braekout", status=1)


def test_a_folder_of_ones_own_is_read_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zoo/breakout").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert zoo.located("zoo/breakout") == Path("zoo/breakout")
    assert zoo.located("zoo/asterix") == zoo.HOME / "asterix"
    assert zoo.located("runs/breakout") == Path("runs/breakout")


def test_the_page_says_what_is_stored(listed: list[dict[str, object]], capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/zoo.md").read_text()
    for agent in listed:
        line = f"| `{agent['name']}` | `{agent['agent']}` | {agent['env']} |"
        assert line in page
        assert f"| {agent['mean']:.1f} ± {agent['std']:.1f} |" in page
    code = page.split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert float(capsys.readouterr().out) > 0
