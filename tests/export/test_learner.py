"""A learner taken out of a run goes on in C exactly where the run stopped."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace.agents import agent_named
from headrace.engines.base import HostStream
from headrace.engines.learner.description import describe
from headrace.envs.base import EnvSpec, TimeStep
from headrace.errors import HeadraceError
from headrace.export import export
from headrace.export.learner import files, initialiser, state_bytes
from headrace.export.policy import Saved, read
from headrace.learner import SOURCES
from headrace.runs.folder import RunFolder
from headrace.training.run import make_run, run_of
from headrace.training.single import Trained, train
from tests.engines.learner.support import WITH_BOXES
from tests.export.support import QUICK, WIDE, compiled, learner_built, make
from tests.small_runs import GAME, SETTINGS, VARIANT, StopAt, only_run

STOPPED, STEPS = 300, 900


class Recorder:
    """An environment, and what it was asked and said, as an exported program writes and reads it."""

    def __init__(self, env: Any) -> None:
        self._env, self.spec = env, env.spec
        self.actions: list[Any] = []
        self.answers: list[str] = []
        self.successors: list[np.ndarray] = []

    def step(self, action: Any) -> TimeStep:
        said = self._env.step(action)
        self.actions.append(action)
        self.answers.append(answer(said))
        self.successors.append(said.successor)
        return said

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def answer(said: TimeStep) -> str:
    flags = 1 * bool(said.terminated) + 2 * bool(said.truncated) + 4 * bool(said.last)
    first = [said.obs] if said.last else []
    numbers = (float(x) for array in (said.successor, *first) for x in np.ravel(array))
    return " ".join([str(flags), repr(float(said.reward)), *map(repr, numbers)])


class Begun(NamedTuple):
    """What a learner does and is where an episode begins."""

    action: int
    state: bytes


class Continued(NamedTuple):
    """A run that was exported in the middle, and how it went on."""

    run: Path
    device: Path
    actions: list[int]
    answers: list[str]
    end: bytes  # its state then
    begun: Begun  # in its place, with the first answer's observation


def continued(folder: Path, steps: int, stopped: int, *settings: str) -> Continued:
    """Trains, stops, exports, and goes on, the environment being overheard."""
    words = {"steps": steps, "out": folder, "engine": "learner", "form": "host", "settings": settings}
    train(VARIANT, GAME, checkpoint_every=stopped, progress=StopAt(stopped), **words)
    run = only_run(folder)
    device = folder / "device"
    export(run, "learner", device)

    saved, checkpoint = read(run), RunFolder.read(run).latest()
    assert 0 < saved.step < steps
    stream = run_of(RunFolder.read(run).identity).stream()
    assert stream.restore(checkpoint.arrays, checkpoint.state) == ""
    recorder = Recorder(stream.env)
    HostStream(stream.engine, recorder, saved.run.seed).run(steps - saved.step)
    engine = saved.run.stream().engine
    engine.restore(checkpoint.arrays)
    engine.restart(recorder.successors[0])
    begun = Begun(engine.action, state_bytes(saved.run, engine.save().values()))

    train(VARIANT, GAME, **words)
    end = RunFolder.read(run).latest()
    assert end.step == steps
    arrays = stream.engine.save()
    for name in (name for name in end.arrays if "/tally/" not in name):  # the sums of the open row of metrics
        np.testing.assert_array_equal(arrays[name], end.arrays[name], name)
    return Continued(run, device, recorder.actions, recorder.answers, state_bytes(saved.run, arrays.values()), begun)


@pytest.fixture(scope="module")
def continuation(tmp_path_factory: pytest.TempPathFactory) -> Continued:
    folder = tmp_path_factory.mktemp("continued")
    with learner_built(folder / "library.so"):
        found = continued(folder / "runs", STEPS, STOPPED, *SETTINGS)
    make(found.device, *QUICK)
    return found


def agent(device: Path, answers: list[str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([device / "agent", *words], input="\n".join(answers), capture_output=True, text=True)


def acted(device: Path, answers: list[str], *words: str | Path) -> list[int]:
    done = agent(device, answers, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [int(line) for line in done.stdout.split()]


def test_it_goes_on_to_the_bit(continuation: Continued, tmp_path: Path) -> None:
    actions = acted(continuation.device, continuation.answers, tmp_path / "state")
    assert actions[:-1] == continuation.actions
    assert (tmp_path / "state").read_bytes() == continuation.end


def test_it_goes_on_to_the_bit_from_a_state_that_it_saved(continuation: Continued, tmp_path: Path) -> None:
    """Also one saved just after an episode's end, whose traces are still to be cut."""
    answers, state = continuation.answers, tmp_path / "state"
    ended = next(i for i, said in enumerate(answers) if said.startswith("5 ")) + 1
    assert 0 < ended < len(answers) - 7
    for start, end in ((0, ended), (ended, ended + 7), (ended + 7, len(answers))):
        assert acted(continuation.device, answers[start:end], state)[:-1] == continuation.actions[start:end]
    assert state.read_bytes() == continuation.end


def test_before_any_answer_it_is_what_the_run_saved(continuation: Continued, tmp_path: Path) -> None:
    assert acted(continuation.device, [], tmp_path / "state") == continuation.actions[:1]
    assert (tmp_path / "state").read_bytes() == (continuation.device / "state.bin").read_bytes()


def test_an_episode_begins_where_it_is_told_so(continuation: Continued, tmp_path: Path) -> None:
    """As after its power was off: nothing is learnt, and traces and window are empty."""
    words = "8 0 " + continuation.answers[0].split(" ", 2)[2]
    assert acted(continuation.device, [words], tmp_path / "state")[1] == continuation.begun.action
    assert (tmp_path / "state").read_bytes() == continuation.begun.state


@pytest.mark.parametrize("said", ["0 1.0 nan", "0 1.0 0.5", "0 inf", "what"])
def test_an_answer_that_makes_no_sense_ends_it_and_nothing_is_lost(
    continuation: Continued, tmp_path: Path, said: str
) -> None:
    answers = continuation.answers[:5]
    acted(continuation.device, answers, tmp_path / "good")
    done = agent(continuation.device, [*answers, said], tmp_path / "state")
    assert (done.returncode, done.stderr) == (1, "agent: an answer is not made of finite numbers, or too short\n")
    assert (tmp_path / "state").read_bytes() == (tmp_path / "good").read_bytes()


@pytest.mark.parametrize("change", ["truncated", "longer", "a bit", "another run", "another version", "byte order"])
def test_a_state_that_is_not_its_own_is_refused(continuation: Continued, tmp_path: Path, change: str) -> None:
    good = (continuation.device / "state.bin").read_bytes()
    head = np.frombuffer(good[:20], "<u4").copy()
    if change in ("another run", "another version"):
        head[{"another version": 1, "another run": 2}[change]] += 1
    changed = {
        "truncated": good[:-1],
        "longer": good + b"\0",
        "a bit": good[:-1] + bytes([good[-1] ^ 1]),
        "byte order": head.astype(">u4").tobytes() + good[20:],
    }.get(change, head.tobytes() + good[20:])
    (tmp_path / "state").write_bytes(changed)
    done = agent(continuation.device, [], tmp_path / "state")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"agent: {tmp_path / 'state'} is no state of this agent, or a damaged one\n"
    assert (tmp_path / "state").read_bytes() == changed


def test_in_a_box_it_writes_the_numbers_of_its_action(tmp_path: Path) -> None:
    """As the run itself goes on."""
    pytest.importorskip("gymnasium")
    with learner_built(tmp_path / "library.so"):
        words = {"steps": 300, "out": tmp_path / "runs", "settings": ("network=Mlp((6,), 7)",)}
        run = train("ac+spr", "gym/Pendulum-v1", checkpoint_every=100, progress=StopAt(100), **words).path
        export(run, "learner", tmp_path / "device")
        saved, checkpoint = read(run), RunFolder.read(run).latest()
        stream = run_of(RunFolder.read(run).identity).stream()
        assert stream.restore(checkpoint.arrays, checkpoint.state) == ""
        recorder = Recorder(stream.env)
        HostStream(stream.engine, recorder, saved.run.seed).run(saved.run.steps - saved.step)
        end = state_bytes(saved.run, stream.engine.save().values())
    make(tmp_path / "device", *QUICK)
    done = agent(tmp_path / "device", recorder.answers, tmp_path / "state")
    assert (done.returncode, done.stderr) == (0, "")
    told = np.array([line.split() for line in done.stdout.splitlines()[:-1]], np.float32)
    assert len(told) == 300 - saved.step
    np.testing.assert_array_equal(told, np.array(recorder.actions))
    assert (tmp_path / "state").read_bytes() == end
    assert "acts by a vector of 1, each number clipped to [-1, 1]" in (tmp_path / "device/README.md").read_text()


def test_a_state_that_cannot_be_written_is_told(continuation: Continued, tmp_path: Path) -> None:
    done = agent(continuation.device, [], tmp_path / "nowhere/state")
    assert (done.returncode, done.stderr) == (1, f"agent: cannot write {tmp_path / 'nowhere/state'}\n")


def test_its_bench_says_what_it_takes(continuation: Continued) -> None:
    said = make(continuation.device, "bench", *QUICK[:1], f"{QUICK[1]} -DSECONDS=0.01").stdout
    size = (continuation.device / "state.bin").stat().st_size
    assert re.search(rf"state +{size} bytes, read-only\nmemory +\d+ bytes\na step +[\d.]+ microseconds", said)


def test_its_page_and_header_say_what_it_is(continuation: Continued) -> None:
    page, header = ((continuation.device / name).read_text() for name in ("README.md", "agent.h"))
    size = (continuation.device / "state.bin").stat().st_size
    assert f"| flash: the state (`state.bin`) | {size} |" in page
    assert continuation.run.name in page
    assert f"#define AGENT_STATE {size} " in header
    assert "#define AGENT_ACTIONS 3 /* 0 noop, 1 left, 2 right */" in header
    assert ".aux = {.objective = 1, .horizon = 2," in header


def test_a_header_describes_every_agent_as_headrace_does(tmp_path: Path) -> None:
    """The bytes of the struct, from C and from Python."""
    shapes = {"image": (84, 84, 4), "vector": (7,)}
    configs = [
        describe(agent_named(name), EnvSpec(kind, shape, ("a", "b"), frames=1, box=box), 12_345_678)
        for name, box in WITH_BOXES
        for kind, shape in shapes.items()
    ]
    written = ",\n".join(f"{{ \\\n{initialiser(config)} \\\n}}" for config in configs)
    (tmp_path / "main.c").write_text(
        '#include "learner.h"\n#include <stdio.h>\n'
        f"static const hr_config all[] = {{{written}}};\n"
        "int main(void) { return fwrite(all, sizeof all, 1, stdout) != 1; }\n"
    )
    compiled("-I", SOURCES, "-o", tmp_path / "main", tmp_path / "main.c")
    told = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout
    assert told == b"".join(bytes(config) for config in configs)


def test_it_is_compiled_as_headraces_own_learner_is() -> None:
    """Other flags may round differently."""
    root = Path(__file__).parents[2]
    exported = re.search(r"^FLAGS := (.*)$", (SOURCES.parent / "export/learner_files/Makefile").read_text(), re.M)
    for page, name in (("Makefile", "LEARNER_FLAGS := "), ("setup.py", r'FLAGS = \(?\s*"')):
        own = re.search(rf"^{name}([^\n\"]*)", (root / page).read_text(), re.M)
        assert rounding(own[1]) == rounding(exported[1]) != set()


def rounding(flags: str) -> set[str]:
    return {flag for flag in flags.split() if flag.startswith(("-O", "-f", "-std", "-m"))}


def test_a_run_of_the_reference_engine_goes_on_from_the_same_state(finished_compiled: Trained, tmp_path: Path) -> None:
    device = tmp_path / "device"
    export(finished_compiled.path, "learner", device)
    assert "The run was trained by headrace's reference engine." in (device / "README.md").read_text()
    checkpoint = RunFolder.read(finished_compiled.path).latest()
    make(device, *QUICK)
    assert acted(device, [], tmp_path / "state") == [checkpoint.arrays["stream/choice/action"]]
    body = (tmp_path / "state").read_bytes()[20:]
    weights = checkpoint.arrays["stream/agent/params/projection/0/w"].tobytes()
    history = checkpoint.arrays["stream/agent/aux/history/encoder/0/w"].tobytes()
    assert weights in body
    assert history in body


def test_an_agent_that_the_learner_does_not_know_is_refused() -> None:
    run = make_run("qrc+curl", GAME)
    with pytest.raises(HeadraceError, match=r"^qrc\+curl cannot be exported as a learner in C: it does not know Curl"):
        files(Saved(run, run.env.host().spec, 0, {}, []))


def test_a_state_that_the_learner_does_not_know_is_refused() -> None:
    run = make_run("strq", GAME, engine="learner")
    with pytest.raises(HeadraceError, match="the state of this run does not fit the learner in C: it has no array"):
        files(Saved(run, run.env.host().spec, 0, {}, []))


@pytest.mark.long
def test_ten_thousand_steps_of_the_papers_network_are_equal_to_the_bit(tmp_path: Path) -> None:
    """With the flags and the vectors of headrace's own learner, built by the same compiler."""
    flags = re.findall(r"-[Of]\S+", (Path(__file__).parents[2] / "Makefile").read_text().split("LEARNER_FLAGS", 1)[1])
    with learner_built(tmp_path / "library.so", (*flags[:4],), WIDE):
        found = continued(tmp_path / "runs", 12_000, 2_000)
    make(found.device)
    assert len(found.answers) == 10_000
    assert acted(found.device, found.answers, tmp_path / "state")[:-1] == found.actions
    assert (tmp_path / "state").read_bytes() == found.end
