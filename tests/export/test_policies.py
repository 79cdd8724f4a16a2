"""Exported policies against the one that `headrace eval` plays with."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest

from headrace.agents import Limited, agent_named, module_shapes
from headrace.envs.base import EnvSpec
from headrace.errors import HeadraceError
from headrace.export import c_policy, onnx_policy
from headrace.export.policy import Saved, read
from headrace.part import tweak
from headrace.policy import Policy
from headrace.training.evaluation import host_of
from headrace.training.run import Run, make_run
from headrace.training.single import train
from tests.export.support import compiled

SUITES = {
    "minatar": EnvSpec("minatar", (10, 10, 4), ("a", "b", "c")),
    "octax": EnvSpec("octax", (32, 64, 4), ("a", "b", "c", "d")),
    "atari": EnvSpec("atari", (84, 84, 4), ("a", "b", "c", "d"), frames=4, dtype="uint8", low=0, high=255),
    "vector": EnvSpec("vector", (8,), ("a", "b")),
    "stacked vectors": EnvSpec("vector", (9,), ("a", "b"), frames=3),
}
SEEN = 20  # frames, the first of an episode among them every seventh time
Q = Callable[[np.ndarray, bool], tuple[np.ndarray, int]]  # of a frame, with which an episode may begin


def saved_of(spec: EnvSpec, *settings: str, name: str = "qrc") -> Saved:
    """A saved agent with weights and scales drawn at random: nothing of it is 0, 1 or alike."""
    random = np.random.default_rng(7)
    run = Run(tweak(agent_named(name), *settings), make_run("qrc", "minatar/breakout").env, 0, 100)
    arrays: dict[str, np.ndarray] = {}
    for module, layers in module_shapes(run.agent, spec.observation_shape, spec.n_actions, spec.box).items():
        for i, layer in enumerate(layers):
            for name, shape in layer.items():
                scale = 1 / np.sqrt(np.prod(shape[:-1]))
                arrays[f"stream/agent/params/{module}/{i}/{name}"] = scale * random.normal(size=shape)
    high = 255.0 if spec.dtype == "uint8" else 1.0
    for name, size in (("mean", high), ("mean_rest", 1e-8), ("squares", 10 * high**2), ("squares_rest", 1e-8)):
        arrays[f"stream/obs_scale/{name}"] = size * random.random(spec.frame_shape)
    count = np.array(50, np.int32)
    typed = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    return Saved(run, spec, 50, {"stream/obs_scale/count": count, **typed}, [])


def frames_of(spec: EnvSpec, count: int) -> Iterator[tuple[np.ndarray, bool]]:
    """Frames as an environment shows them, and whether an episode begins."""
    random = np.random.default_rng(1)
    for i in range(count):
        frame = random.random(spec.frame_shape, np.float32)
        yield (255 * frame if spec.dtype == "uint8" else frame).astype(spec.dtype), i % 7 == 0


def assert_same(policy: Any, exported: Q, seen: Iterator[tuple[np.ndarray, bool]], frames: int) -> int:
    """Equal values to rounding, and equal actions wherever rounding cannot decide; how many were compared."""
    stack: list[np.ndarray] = []
    count = decided = 0
    for frame, first in seen:
        stack = [frame] * frames if first else [*stack[1:], frame]
        wanted = policy.q(np.concatenate(stack, axis=-1))
        q, action = exported(frame, first)
        bound = 1e-4 * float(np.abs(wanted).max())
        np.testing.assert_allclose(q, wanted, rtol=0, atol=bound)
        best, second = np.sort(wanted)[:-3:-1]
        count += 1
        if best - second > 2 * bound:
            decided += 1
            assert action == wanted.argmax()
    assert decided > 0.9 * count
    return count


def run_onnx(data: bytes, spec: EnvSpec) -> Q:
    session = onnxruntime.InferenceSession(data)
    stack = np.full((1, *spec.observation_shape), np.nan, np.float32)

    def step(frame: np.ndarray, first: bool) -> tuple[np.ndarray, int]:
        nonlocal stack
        if spec.frames == 1:
            action, q = session.run(["action", "q"], {"frame": frame[None]})
        else:
            inputs = {"frame": frame[None], "stack": stack, "first": np.array([first])}
            action, q, stack = session.run(["action", "q", "next_stack"], inputs)
        return q[0], int(action[0])

    return step


# Prints Q beside the action: what test programs want to know, and others can read in the struct.
ACTING = 'printf("%d\\n", policy_act(&p, frame, first));'
TELLING = """{
            const int action = policy_act(&p, frame, first);
            for (int a = 0; a < POLICY_ACTIONS; a++) printf("%.9g ", p.values[a]);
            printf("%d\\n", action);
            fflush(stdout);
        }"""


class Program(NamedTuple):
    """An exported policy in C, with the program of its README around it."""

    process: subprocess.Popen[str]

    def __call__(self, frame: np.ndarray, first: bool) -> tuple[np.ndarray, int]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(int(first), *np.ravel(frame).tolist(), file=self.process.stdin, flush=True)
        *q, action = self.process.stdout.readline().split()
        return np.array(q, np.float32), int(action)


def run_c(files: dict[str, bytes], folder: Path) -> Program:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    main = re.search(r"```c\n(.*?)```", files["README.md"].decode(), re.S)
    assert main is not None
    assert ACTING in main[1]
    (folder / "main.c").write_text(main[1].replace(ACTING, TELLING))
    compiled("-pedantic", "-O1", "-o", folder / "policy", folder / "main.c", folder / "policy.c", "-lm")
    return Program(subprocess.Popen([folder / "policy"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))


def frozen(saved: Saved) -> Any:
    """What `headrace eval` plays with where there is a C compiler."""
    return Policy(saved.run.agent, saved.arrays)


@pytest.mark.parametrize("suite", SUITES)
def test_onnx_is_the_policy_of_eval(suite: str) -> None:
    saved = saved_of(SUITES[suite])
    exported = run_onnx(onnx_policy.files(saved)["policy.onnx"], saved.spec)
    assert assert_same(frozen(saved), exported, frames_of(saved.spec, SEEN), saved.spec.frames) == SEEN


@pytest.mark.parametrize("suite", [name for name in SUITES if name not in ("octax", "atari")])
def test_c_is_the_policy_of_eval(suite: str, tmp_path: Path) -> None:
    """Atari's and Octax's networks, whose millions of numbers take a compiler a while, are left to the long test."""
    assert_c_is_the_policy(saved_of(SUITES[suite]), tmp_path)


def test_c_stacks_images_and_strides_over_them(tmp_path: Path) -> None:
    network = "network=Conv((5, 6), ((4, 3), (2, 2)), ((3, 2), (1, 2)), 7)"
    spec = EnvSpec("small", (13, 11, 6), ("a", "b", "c"), frames=3, dtype="uint8", high=255)
    assert_c_is_the_policy(saved_of(spec, network), tmp_path)


def assert_c_is_the_policy(saved: Saved, folder: Path) -> None:
    program = run_c(c_policy.files(saved), folder)
    with program.process:
        assert assert_same(frozen(saved), program, frames_of(saved.spec, SEEN), saved.spec.frames) == SEEN


@pytest.mark.parametrize("encoder", ["OwnEncoder", "OneEncoder"])
@pytest.mark.parametrize("box", [False, True])
def test_both_export_what_an_actor_does(box: bool, encoder: str, tmp_path: Path) -> None:
    """The likeliest action, by its preference; in a box the mean, within the bounds."""
    saved = saved_of(replace(SUITES["vector"], box=box), f"td.encoder={encoder}", name="ac")
    saved.arrays["stream/agent/params/pi_head/0/w"] *= np.float32(4)  # some numbers are beyond the bounds
    policy = frozen(saved)
    session = onnxruntime.InferenceSession(onnx_policy.files(saved)["policy.onnx"])
    files = c_policy.files(saved)
    if box:
        telling = re.search(r"policy_act.*?n\"\);", files["README.md"].decode(), re.S)
        assert telling is not None
        files["README.md"] = files["README.md"].replace(telling[0].encode(), ACTING.encode())
    outside = 0
    with run_c(files, tmp_path).process as process:
        for frame, first in frames_of(saved.spec, SEEN):
            given, chosen = Program(process)(frame, first)
            wanted, action = np.asarray(policy(frame)), session.run(["action"], {"frame": frame[None]})[0][0]
            np.testing.assert_allclose(action, wanted, rtol=0, atol=1e-5)
            np.testing.assert_allclose(given if box else chosen, wanted, rtol=0, atol=1e-5)
            outside += bool((np.abs(given) == 1).any())
    assert (outside > 0) == box


@pytest.mark.parametrize("setting", ["network.head=Relu", "observations=Limited(0.5)"])
def test_both_know_what_the_released_agents_have(setting: str, tmp_path: Path) -> None:
    saved = saved_of(SUITES["stacked vectors"], setting)
    exported = run_onnx(onnx_policy.files(saved)["policy.onnx"], saved.spec)
    assert_same(frozen(saved), exported, frames_of(saved.spec, SEEN), saved.spec.frames)
    assert_c_is_the_policy(saved, tmp_path)


def test_an_onnx_model_takes_many_frames_at_once_and_says_what_it_is() -> None:
    saved = saved_of(SUITES["minatar"])
    data = onnx_policy.files(saved)["policy.onnx"]
    frames = np.stack([frame for frame, _ in frames_of(saved.spec, 5)])
    actions, q = onnxruntime.InferenceSession(data).run(["action", "q"], {"frame": frames})
    alone = run_onnx(data, saved.spec)
    assert [alone(frame, False)[1] for frame in frames] == actions.tolist()
    assert q.shape == (5, 3)
    facts = {fact.key: fact.value for fact in onnx.load_from_string(data).metadata_props}
    assert facts == {"run": saved.run.name, "step": "50", "actions": "a,b,c"}


def test_c_says_how_large_it_is(tmp_path: Path) -> None:
    files = c_policy.files(saved_of(SUITES["vector"]))
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "size.c").write_text(
        '#include "policy.h"\n#include <stdio.h>\nint main(void) { printf("%zu", sizeof(policy)); }'
    )
    compiled("-o", tmp_path / "size", tmp_path / "size.c")
    told = subprocess.run([tmp_path / "size"], capture_output=True, text=True, check=True).stdout
    assert f"| RAM: one `policy` | {told} |" in files["README.md"].decode()


@dataclass(frozen=True)
class MyLimit(Limited):
    """A part that somebody else wrote."""


@pytest.mark.parametrize("kind", [onnx_policy, c_policy])
def test_what_cannot_be_exported_is_told(kind: Any) -> None:
    saved = saved_of(SUITES["vector"])
    strange = replace(saved.run, agent=replace(saved.run.agent, observations=MyLimit(3.0)))
    with pytest.raises(HeadraceError, match=r"the policy of .* cannot be exported: MyLimit is not supported"):
        kind.files(saved._replace(run=strange))
    arrays = dict(saved.arrays)
    del arrays["stream/agent/params/head/0/w"]
    with pytest.raises(HeadraceError, match="it has no stream/agent/params/head/0/w"):
        kind.files(saved._replace(arrays=arrays))
    arrays["stream/agent/params/head/0/w"] = np.full((128, 2), np.inf, np.float32)
    with pytest.raises(HeadraceError, match="stream/agent/params/head/0/w is not finite"):
        kind.files(saved._replace(arrays=arrays))


def test_without_the_package_onnx_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.errors.find_spec", lambda name: None)
    with pytest.raises(HeadraceError, match=r"^writing ONNX needs the onnx package: pip install 'headrace\[onnx\]'$"):
        onnx_policy.files(saved_of(SUITES["vector"]))


@pytest.mark.long
@pytest.mark.parametrize("env", ["minatar/seaquest", "octax/pong", "atari/pong", "gym/CartPole-v1"])
def test_a_thousand_observations_of_each_suite(env: str, tmp_path: Path) -> None:
    run = train("qrc", env, steps=300, out=tmp_path / "runs", engine="auto").path
    saved = read(run)
    policy = frozen(saved)
    exported = run_onnx(onnx_policy.files(saved)["policy.onnx"], saved.spec)
    assert assert_same(policy, exported, played(saved, policy), saved.spec.frames) == 1000
    program = run_c(c_policy.files(saved), tmp_path)
    with program.process:
        assert assert_same(policy, program, played(saved, policy), saved.spec.frames) == 1000


def played(saved: Saved, policy: Any) -> Iterator[tuple[np.ndarray, bool]]:
    """A thousand frames of the run's environment, whatever is done in it now and then."""
    env, random = host_of(saved.run), np.random.default_rng(3)
    channels = saved.spec.frame_shape[-1]
    obs, first = env.reset(5), True
    for _ in range(1000):
        yield np.asarray(obs)[..., -channels:], first
        action = policy.q(obs).argmax() if random.random() < 0.7 else random.integers(saved.spec.n_actions)
        said = env.step(int(action))
        obs, first = said.obs, bool(said.last)
