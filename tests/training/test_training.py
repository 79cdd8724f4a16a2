"""A run, driven in this process: what it writes, and what it does when something goes wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.agents import VARIANTS
from headrace.engines.base import Stream
from headrace.engines.jax import compiled
from headrace.envs import registry
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import BadSetting, Diverged, EnvironmentFault, HeadraceError, RunConflict, UnknownName
from headrace.part import tweak
from headrace.runs.folder import RunFolder
from headrace.training import sinks
from headrace.training.pace import Speed
from headrace.training.run import Run, make_run
from headrace.training.single import Trained, train
from tests.small_runs import (
    GAME,
    SETTINGS,
    STEPS,
    VARIANT,
    WAYS,
    Command,
    StopAt,
    assert_same_arrays,
    assert_same_result,
    checkpoint_steps,
    contents,
    newest_checkpoint,
    only_run,
    small_train,
    small_words,
)

LEARNER = WAYS["learner"]  # where no engine is the point


def test_metrics_have_one_row_each_thousand_steps(finished: Trained) -> None:
    metrics = RunFolder.read(finished.path).metrics()
    assert metrics["step"].tolist() == [1000, 2000, 3000]
    wanted = "return td_error q td_update_norm aux_update_norm aux_loss cosine_before_orth cosine_before_orth2 epsilon"
    for name in wanted.split():
        assert np.isfinite(metrics[name]).all(), name
    assert (np.abs(metrics["cosine_before_orth"]) <= 1).all()
    assert (np.abs(metrics["aux_loss"]) <= 2).all()  # a sum of two cosines
    assert metrics["epsilon"][-1] == pytest.approx(0.01, rel=1e-4)  # reached after a tenth of the run
    assert (metrics["aux_active"] > 0.5).all()


def test_the_logged_return_is_the_mean_of_the_last_hundred_finished_episodes(finished: Trained) -> None:
    folder = RunFolder.read(finished.path)
    episodes, metrics = folder.episodes(), folder.metrics()
    for step, logged in zip(metrics["step"], metrics["return"], strict=True):
        assert logged == pytest.approx(episodes["return"][episodes["step"] <= step][-100:].mean(), rel=1e-12)
    assert len(episodes["step"]) > 100


def test_the_score_is_the_mean_of_the_last_fifty_points(finished: Trained) -> None:
    returns = RunFolder.read(finished.path).metrics()["return"]
    assert finished.score == (pytest.approx(returns[-50:].mean()), 3)


def test_every_step_belongs_to_one_episode(finished: Trained) -> None:
    episodes = RunFolder.read(finished.path).episodes()
    assert episodes["step"].tolist() == episodes["length"].cumsum().tolist()
    assert STEPS - episodes["step"][-1] < 500  # the open episode


def test_the_folder_of_a_finished_run(finished: Trained) -> None:
    facts = RunFolder.read(finished.path).manifest
    assert facts["status"] == "finished"
    assert facts["identity"]["steps"] == STEPS
    assert facts["machine"]["jax"]
    assert facts["start"] <= facts["end"]
    assert facts["seconds"] > 0
    assert (finished.path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert checkpoint_steps(finished.path) == [STEPS - 250, STEPS]


def test_a_finished_run_run_again_changes_no_file(finished: Trained) -> None:
    before = contents(finished.path)
    identity = RunFolder.read(finished.path).identity
    again = small_train(finished.path.parent, engine=identity["engine"], form=identity["env"]["form"])
    assert again == finished._replace(did_nothing=True)
    assert contents(finished.path) == before


def test_a_run_that_another_process_writes_is_refused(finished_compiled: Trained, tmp_path: Path) -> None:
    identity = RunFolder.read(finished_compiled.path).identity
    refusal = pytest.raises(RunConflict, match=r"another process \(pid \d+\) is training the run")
    with RunFolder.open(tmp_path / finished_compiled.path.name, identity, {}), refusal:
        small_train(tmp_path)


# Stopping anywhere and continuing


@pytest.mark.parametrize("way", WAYS)
def test_where_a_stream_stops_and_how_it_is_cut_does_not_matter(way: str, programs: Path) -> None:
    run = make_run(VARIANT, GAME, seed=3, steps=STEPS, settings=SETTINGS, **WAYS[way])
    straight = run.stream()
    straight.begin()
    episodes = straight.run(997) + straight.run(3)
    means = straight.report()

    other = run.stream()
    other.begin()
    heard = []
    for count in (1, 2, 61, 333, 0, 7, 400, 196):
        heard += other.run(count)
        other = renewed(other, run.stream())
    assert other.step == 1000
    assert heard == episodes
    assert other.report() == means
    assert_same_arrays(other.save()[0], straight.save()[0])
    assert other.save()[1] == straight.save()[1]


def test_chunks_end_where_something_is_logged_and_where_the_run_ends(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Speed, "steps_in", lambda self, seconds: 700)  # of which a thousand is no multiple
    done = small_train(tmp_path, steps=2500, checkpoint_every=None, **WAYS["learner"])
    folder = RunFolder.read(done.path)
    assert done.steps_done == folder.latest().step == 2500
    assert folder.metrics()["step"].tolist() == [1000, 2000]


def renewed(stream: Stream, fresh: Stream) -> Stream:
    fresh.restore(*stream.save())
    return fresh


@pytest.mark.parametrize(("way", "stop"), [("learner", 40), ("compiled", 1000), ("learner", 1777)])
def test_a_run_stopped_by_ctrl_c_continues_exactly(
    way: str, stop: int, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {**WAYS[way], "seed": 3}  # with which many episodes are won, so that their mean tells of all that it is of
    whole = small_train(tmp_path / "whole", **how)
    assert whole.score is not None
    assert whole.score.mean > 0.1
    monkeypatch.setattr(Speed, "steps_in", lambda self, seconds: 50)  # or a fast machine stops at a thousand each time
    first = small_train(tmp_path, progress=StopAt(stop), checkpoint_every=None, **how)
    assert first.status == RunFolder.read(first.path).status == "interrupted"
    assert stop <= first.steps_done < stop + 50
    assert checkpoint_steps(first.path) == [first.steps_done]
    heard = StopAt(STEPS + 1)
    assert small_train(tmp_path, progress=heard, **how).status == "finished"
    assert heard.notices == [f"continuing from step {first.steps_done:,}"]
    assert_same_result(first.path, whole.path)


class StopBefore(StopAt):
    """Presses Ctrl-C while the run is being prepared."""

    def say(self, what: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_a_run_stopped_before_its_first_step_begins(finished_learner: Trained, tmp_path: Path) -> None:
    first = small_train(tmp_path, progress=StopBefore(STEPS + 1), **LEARNER)
    assert (first.status, first.steps_done) == ("interrupted", 0)
    heard = StopAt(STEPS + 1)
    assert small_train(tmp_path, progress=heard, **LEARNER).status == "finished"
    assert heard.notices == []
    assert_same_result(first.path, finished_learner.path)


def test_the_clock_goes_on_where_a_run_continues(tmp_path: Path) -> None:
    first = small_train(tmp_path, progress=StopAt(1500), **LEARNER)
    before = RunFolder.read(first.path).speed()["seconds"]
    small_train(tmp_path, **LEARNER)
    after = RunFolder.read(first.path)
    assert (np.diff(after.speed()["seconds"]) > 0).all()
    assert after.manifest["seconds"] > before[-1]


def truncate(path: Path) -> str:
    path.write_bytes(path.read_bytes()[:-100])
    return "passed over"


def flip_a_bit(path: Path) -> str:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)
    return "passed over"


def empty(path: Path) -> str:
    path.write_bytes(b"")
    return "passed over"


def replace_by_another_runs(path: Path) -> str:
    other = small_train(path.parents[2] / "other", seed=1, progress=StopAt(1), **LEARNER)
    path.write_bytes(newest_checkpoint(other.path).read_bytes())
    return "it belongs to another run"


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, empty, replace_by_another_runs])
def test_the_checkpoint_before_a_damaged_one_is_used(
    damage: Callable[[Path], str], finished_learner: Trained, tmp_path: Path
) -> None:
    path = small_train(tmp_path, progress=StopAt(1200), checkpoint_every=100, **LEARNER).path
    good, bad = checkpoint_steps(path)
    reason = damage(newest_checkpoint(path))
    heard = StopAt(STEPS + 1)
    small_train(tmp_path, progress=heard, **LEARNER)
    assert f"step-{bad:012d}" in heard.notices[0]
    assert reason in heard.notices[0]
    assert heard.notices[1:] == [f"continuing from step {good:,}"]
    assert_same_result(path, finished_learner.path)


def test_without_a_usable_checkpoint_a_run_starts_anew(finished_learner: Trained, tmp_path: Path) -> None:
    path = small_train(tmp_path, progress=StopAt(600), **LEARNER).path
    for checkpoint in (path / "checkpoints").iterdir():
        truncate(checkpoint)
    heard = StopAt(STEPS + 1)
    small_train(tmp_path, progress=heard, **LEARNER)
    assert "starts anew" in heard.notices[-1]
    assert_same_result(path, finished_learner.path)


# What can go wrong


def test_a_diverging_agent_stops_at_its_last_good_checkpoint(programs: Path, tmp_path: Path) -> None:
    wild = {"settings": ("td.lr=1.0",), "checkpoint_every": 25}
    with pytest.raises(Diverged, match=r"is no longer finite at step \d+") as caught:
        small_train(tmp_path, **wild)
    (path,) = tmp_path.iterdir()
    folder, step = RunFolder.read(path), caught.value.step
    assert folder.status == "diverged"
    assert folder.manifest["diverged"] == {"quantity": caught.value.quantity, "step": step}
    assert 25 < step < STEPS

    checkpoint = folder.latest()
    assert checkpoint is not None
    assert folder.notices == []
    assert step - 25 <= checkpoint.step < step
    assert f"The checkpoint of step {checkpoint.step:,} is kept; " in str(caught.value)
    floats = [array for array in checkpoint.arrays.values() if array.dtype.kind == "f"]
    assert all(np.isfinite(array).all() for array in floats)

    before = contents(path)
    with pytest.raises(Diverged, match=f"{caught.value.quantity} is no longer finite at step {step}") as again:
        small_train(tmp_path, **wild)
    assert str(again.value) == str(caught.value)
    assert contents(path) == before


class Faulty:
    """Pictures of noise in Breakout's shape, until something is wrong with one; an episode has ten steps."""

    spec = EnvSpec("toy/faulty", (10, 10, 4), ("stay", "left", "right"))

    def __init__(self, fault: str, at: int) -> None:
        self.fault, self.at = fault, at

    def reset(self, seed: int) -> np.ndarray:
        self.random, self.count = np.random.RandomState(seed), 0
        return self._picture()

    def _picture(self) -> np.ndarray:
        return self.random.rand(10, 10, 4)

    def step(self, action: int) -> TimeStep:
        self.count += 1
        last = self.count % 10 == 0
        obs, reward = self._picture(), 1.0
        step = TimeStep(obs, self._picture() if last else obs, reward, last, False, last)
        return step._replace(**self._wrong(obs)) if self.count == self.at else step

    def _wrong(self, obs: np.ndarray) -> dict[str, Any]:
        nan, words = np.where(obs > 0.99, np.nan, obs), [["black"]]
        wrong: dict[str, dict[str, Any]] = {
            "nan": {"obs": nan, "successor": nan},
            "infinite reward": {"reward": np.inf},
            "shape": {"obs": obs[:9], "successor": obs[:9]},
            "two rewards": {"reward": np.ones(2)},
            "no numbers": {"obs": words, "successor": words},
            "none": {},
        }
        return wrong[self.fault]

    def save(self) -> dict[str, Any]:
        state: Any = self.random.get_state()
        return {"count": self.count, "random": [state[0], state[1].tolist(), *state[2:]]}

    def restore(self, saved: dict[str, Any]) -> None:
        self.count = saved["count"]
        kind, keys, *rest = saved["random"]
        self.random.set_state((kind, np.array(keys, np.uint32), *rest))

    def render(self) -> np.ndarray:
        return np.zeros((10, 10, 3), np.uint8)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A family of one faulty environment; what is wrong with it can be changed."""
    fault: dict[str, Any] = {"fault": "none", "at": 333}
    rules = registry.MinAtarRules()
    family = registry.Family(("faulty",), rules, {"host": registry.Form(lambda *_: Faulty(**fault))}, "a toy")
    monkeypatch.setitem(registry.FAMILIES, "toy", family)
    return fault


@pytest.mark.parametrize("engine", ["reference", "learner"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", "the observation that toy/faulty gave at step 333 has nan in it"),
        ("infinite reward", "the reward that toy/faulty gave at step 333 has inf in it"),
        ("shape", r"the observation that toy/faulty gave at step 333 has shape \(9, 10, 4\), not \(10, 10, 4\)"),
        ("two rewards", r"the reward that toy/faulty gave at step 333 has shape \(2,\), not \(\)"),
        ("no numbers", "the observation that toy/faulty gave at step 333 is no array of numbers"),
    ],
)
def test_a_faulty_environment_stops_the_run_and_once_mended_it_continues(
    fault: str, message: str, engine: str, toy: dict[str, Any], programs: Path, tmp_path: Path
) -> None:
    def go() -> Trained:
        return train(VARIANT, "toy/faulty", steps=500, settings=SETTINGS, out=tmp_path,
                     engine=engine, form="host", checkpoint_every=100)  # fmt: skip

    toy["fault"] = fault
    said = message.replace("observation", "(observation|successor)") + r".*\. The run is saved as of step 332: fix"
    with pytest.raises(EnvironmentFault, match=said):
        go()
    path = only_run(tmp_path)
    folder = RunFolder.read(path)
    assert folder.status == "failed"
    assert "EnvironmentFault" in folder.manifest["cause"]
    assert checkpoint_steps(path) == [300, 332]

    toy["fault"] = "none"
    assert go().status == "finished"
    assert RunFolder.read(path).manifest["breaks"] == [{"step": 332, "why": "toy/faulty failed"}]


def test_a_full_disk_is_said_and_the_run_continues_when_there_is_room(
    command: Command, finished_learner: Trained, tmp_path: Path
) -> None:
    path = small_train(tmp_path, progress=StopAt(600), **LEARNER).path
    saved = checkpoint_steps(path)
    blocks = newest_checkpoint(path).stat().st_size // 2 // 512
    full = command(*small_words(tmp_path, "--checkpoint-every", "100", engine="learner"), within=f"ulimit -f {blocks}")
    assert full.returncode == 1
    assert "no room to write" in full.stderr
    assert "run the same command again" in full.stderr
    assert checkpoint_steps(path) == saved
    assert not list((path / "checkpoints").glob(".*"))
    latest = RunFolder.read(path).latest()
    assert latest is not None
    assert latest.step == saved[-1]

    small_train(tmp_path, **LEARNER)
    assert_same_result(path, finished_learner.path)


def test_what_cannot_be_run_leaves_nothing_behind(tmp_path: Path) -> None:
    for changes, error in (
        ({"settings": ("td.lr=-1",)}, BadSetting),
        ({"settings": ("td.rate=1",)}, UnknownName),
        ({"seed": 0.5}, BadSetting),
        ({"steps": 0}, BadSetting),
        ({"checkpoint_every": 0}, BadSetting),
        ({"checkpoint_every": float("inf")}, BadSetting),
        ({"form": "compild"}, UnknownName),
        ({"engine": "fastest"}, UnknownName),
        ({"sinks": ["tensorbord"]}, UnknownName),
        ({"sinks": ["wandb"]}, HeadraceError),
    ):
        with pytest.raises(error):
            small_train(tmp_path / "out", **changes)
    assert not list(tmp_path.iterdir())


# Sinks, and the pieces in a loop of one's own


class Recorder:
    def __init__(self, source: sinks.Source) -> None:
        self.source, self.rows, self.closed = source, list[tuple[int, dict[str, float]]](), False

    def log(self, step: int, metrics: Any) -> None:
        self.rows.append((step, dict(metrics)))

    def close(self) -> None:
        self.closed = True


def test_a_sink_is_told_from_which_step_the_run_is_trained_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[Recorder] = []

    def make(package: Any, source: sinks.Source) -> Recorder:
        opened.append(Recorder(source))
        return opened[-1]

    monkeypatch.setitem(sinks.SINKS, "tensorboard", sinks.Product("json", make))
    first = small_train(tmp_path, sinks=["tensorboard"], progress=StopAt(1234), **LEARNER)
    small_train(tmp_path, sinks=["tensorboard"], **LEARNER)
    assert [sink.source.start for sink in opened] == [0, first.steps_done]
    assert [[step for step, _ in sink.rows] for sink in opened] == [[1000], [2000, 3000]]
    assert all({"return", "td_error", "steps_per_s"} <= row.keys() for sink in opened for _, row in sink.rows)
    assert all(sink.closed for sink in opened)


def test_ten_lines_of_ones_own_do_what_train_does(programs: Path, tmp_path: Path) -> None:
    agent = headrace.tweak(headrace.agent(VARIANT), *SETTINGS)
    env = headrace.make_env(GAME)
    engine = headrace.Engine(agent, env.spec, engine="reference", seed=5, steps=400)
    engine.begin(env.reset(5))
    episodes = []
    while engine.step < 400:
        episode = engine.learn(env.step(engine.action))
        if episode:
            episodes.append(episode)

    trained = headrace.train(agent, GAME, seed=5, steps=400, out=tmp_path, engine="reference", form="host")
    written = headrace.RunFolder.read(trained.path)
    assert [tuple(episode) for episode in episodes] == list(zip(*written.episodes().values(), strict=True))
    checkpoint = written.latest()
    assert checkpoint is not None
    params = {name: a for name, a in checkpoint.arrays.items() if name.startswith("stream/agent/")}
    assert_same_arrays({name: engine.save()[name] for name in params}, params)


def test_numbers_and_seeds_share_one_compiled_program(finished_compiled: Trained, tmp_path: Path) -> None:
    small_train(tmp_path, seed=11, steps=100)
    compiled_before = program_counts()
    small_train(tmp_path, seed=12, steps=150, settings=("td.lr=1e-3", "aux.weight=0.5", "explore.fraction=0.3"))
    assert program_counts() == compiled_before


def program_counts() -> list[int]:
    jitted: list[Any] = [compiled._start, compiled._run]
    return [program._cache_size() for program in jitted]


def test_an_agent_may_be_given_as_a_value(finished_compiled: Trained, tmp_path: Path) -> None:
    agent = tweak(VARIANTS[VARIANT], *SETTINGS)
    assert make_run(agent, GAME, steps=STEPS, engine="reference").name == finished_compiled.path.name


def test_a_description_that_is_infinite_is_no_divergence(programs: Path, tmp_path: Path) -> None:
    """With gamma = lambda = 1 a trace never fades and `overshoot` has nothing to be divided by."""
    done = small_train(tmp_path, steps=200, settings=("td.gamma=1", "td.lamda=1", "td.lr=1e-6"))
    assert done.status == "finished"


def test_a_file_where_the_folder_should_be_is_said_before_anything_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "stream", lambda *_: pytest.fail("it made a stream"))
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="it is a file, not a folder"):
        train("strq", "probe/action", steps=10, out=tmp_path / "file")
