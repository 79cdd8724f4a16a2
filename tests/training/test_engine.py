"""Taking an agent out of a run, and stepping one in a loop of one's own: docs/checkpoints.md, as it stands there."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.agents import agent_named, tweak
from headrace.envs.base import EnvSpec
from headrace.errors import BadSetting, HeadraceError, UnknownName
from headrace.policy import Policy
from headrace.runs.folder import RunFolder
from headrace.training.evaluation import evaluate
from headrace.training.single import Trained, train

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"
BLOCKS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL))
SPEC = EnvSpec("somewhere", (4,), ("a", "b"))


def run_block(name: str, folder: Path, run: Path) -> dict:
    """What the names of a block of the page stand for, once it has run."""
    (folder / name).write_text(BLOCKS[name].replace("runs/NAME", str(run)))
    return runpy.run_path(str(folder / name))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run of the learner with the network of MinAtar."""
    return train("qrc", "minatar/breakout", steps=600, out=tmp_path_factory.mktemp("runs"), engine="learner")


def test_the_page_s_ways_out_agree(trained, tmp_path, capsys):
    out = run_block("take_out.py", tmp_path, trained.path)
    printed = float(capsys.readouterr().out)
    played = evaluate(trained.path, episodes=1, epsilon=0, seed=0).episodes[0]
    assert printed == out["episode_return"] == played.episode_return

    by_hand = run_block("by_hand.py", tmp_path, trained.path)
    (newest,) = sorted((trained.path / "checkpoints").iterdir())[-1:]
    arrays, policy, random = by_hand["load_file"](newest), out["policy"], np.random.default_rng(0)
    seen = (random.random((30, 10, 10, 4)) < 0.2).astype(np.float32)
    assert [by_hand["action"](arrays, obs) for obs in seen] == [policy(obs) for obs in seen]
    assert len({policy(obs) for obs in seen}) > 1
    assert repr(policy) == "<Policy of qrc: observations (10, 10, 4), 3 actions>"


def test_an_agent_goes_on_learning_from_where_its_run_stood(trained, tmp_path):
    engine = headrace.load(trained.path, learning=True)
    wanted = RunFolder.read(trained.path).latest().arrays
    assert engine.name == "learner"
    assert {name: array.tobytes() for name, array in engine.save().items()} == {
        name: array.tobytes() for name, array in wanted.items()
    }
    gone_on = run_block("go_on.py", tmp_path, trained.path)["engine"]
    assert gone_on.step == trained.steps_done + 1000
    assert not np.array_equal(gone_on.save()["stream/agent/params/head/0/w"], wanted["stream/agent/params/head/0/w"])


def test_taking_an_agent_out_loads_no_jax(trained):
    code = f"import sys, headrace; headrace.load({str(trained.path)!r}); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_without_a_checkpoint_is_said(trained, tmp_path):
    with pytest.raises(HeadraceError, match="nowhere"):
        headrace.load(tmp_path / "nowhere")


# stacks of frames -----------------------------------------------------------------------------------------------------


def stacking() -> Policy:
    """An agent that sees three numbers in turn; its statistics leave them as they are."""
    random = np.random.default_rng(0)
    shapes = {
        "encoder/0/w": (3, 4),
        "encoder/0/b": 4,
        "projection/0/w": (4, 4),
        "projection/0/b": 4,
        "head/0/w": (4, 5),
    }
    arrays = {f"stream/agent/params/{name}": random.normal(size=shape) for name, shape in shapes.items()}
    scale = {"count": np.int32(3), "mean": [0.0], "mean_rest": [0.0], "squares": [2.0], "squares_rest": [0.0]}
    arrays |= {f"stream/obs_scale/{name}": np.asarray(value) for name, value in scale.items()}
    return Policy(tweak(agent_named("strq"), "network=Mlp((4,),4)"), arrays)


def test_frames_are_stacked_as_they_are_shown_and_an_episode_begins_with_the_first_repeated():
    policy, whole = stacking(), stacking()
    shown = [1.0, 5.0, -2.0, 0.5]
    stacks = [[1, 1, 1], [1, 1, 5], [1, 5, -2], [5, -2, 0.5]]
    for frame, stack in zip(shown, stacks, strict=True):
        np.testing.assert_array_equal(policy.q([frame]), whole.q(stack))  # shown to q alone, it is not kept
        assert policy([frame]) == int(whole.q(stack).argmax())
    policy.reset()
    np.testing.assert_array_equal(policy.q([7.0]), whole.q([7, 7, 7]))
    with pytest.raises(BadSetting, match=r"has shape \(1,\) or \(3,\), got \(2,\)"):
        policy([1.0, 2.0])


# the engine -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
def test_an_engine_takes_names_and_is_the_learner_where_that_knows_the_agent():
    engine = headrace.Engine("strq", SPEC, steps=100, settings=["td.lamda=0.5"])
    assert engine.name == "learner"
    assert engine.agent == tweak(agent_named("strq"), "td.lamda=0.5")
    assert engine.step == 0
    assert headrace.Engine("strq", SPEC, engine="reference").name == "reference"
    with pytest.raises(BadSetting, match=r"as headrace.make_env\(NAME\).spec, got 'minatar/breakout'"):
        headrace.Engine("strq", "minatar/breakout")  # type: ignore[arg-type]


def test_an_engine_says_why_it_is_not_the_learner():
    with pytest.warns(UserWarning, match=r"the reference engine is used, because .* it does not know Curl"):
        assert headrace.Engine("qrc+curl", SPEC).name == "reference"
    with pytest.raises(BadSetting, match=r"the learner cannot be used: .*Curl"):
        headrace.Engine("qrc+curl", SPEC, engine="learner")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"agent": "strk"}, UnknownName, "unknown variant 'strk'; did you mean 'strq'"),
        ({"engine": "lerner"}, UnknownName, "unknown engine 'lerner'; did you mean 'learner'"),
        ({"steps": 0.5}, BadSetting, "steps must be a whole number"),
        ({"settings": ["td.lr=-1"]}, BadSetting, r"StreamQ.lr must be >= 0.0"),
    ],
)
def test_a_word_that_cannot_be_is_refused(words, error, message):
    with pytest.raises(error, match=message):
        headrace.Engine(**{"agent": "strq", "spec": SPEC, **words})
