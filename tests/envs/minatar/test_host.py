"""The games in C beside those of the authors' package: the same seed, the same actions, every step the same."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from minatar.environment import Environment

from headrace.envs.base import HostEnv
from headrace.envs.minatar import GAMES
from headrace.envs.minatar.host import HostMinAtar
from headrace.envs.packing import pack, unpack
from headrace.errors import CheckpointDamaged
from headrace.learner import library
from tests.envs.minatar.support import wander
from tests.envs.minatar.test_asterix import dodge
from tests.envs.minatar.test_breakout import keep_up
from tests.envs.minatar.test_freeway import hurry
from tests.envs.minatar.test_seaquest import rescue
from tests.envs.minatar.test_space_invaders import hunt

Policy = Callable[[Any, np.random.Generator], int]
SKILLED: dict[str, Policy] = {
    "asterix": dodge,
    "breakout": keep_up,
    "freeway": hurry,
    "seaquest": rescue(6),
    "space_invaders": hunt,
}
LEAST_REWARD = {"asterix": 30, "breakout": 200, "freeway": 30, "seaquest": 50, "space_invaders": 200}  # per 4,000 steps


def play_both(name: str, policy: Policy, *, steps: int, seed: int, sticky: float, ramping: bool) -> tuple[float, int]:
    """The reward and the number of ends, after asserting that every step is the package's."""
    original = Environment(name, sticky, ramping)
    original.seed(seed)
    original.reset()
    env, rng = HostMinAtar(name, sticky, ramping), np.random.default_rng(seed)
    np.testing.assert_array_equal(env.reset(seed), original.state())
    known, total, ends = original.minimal_action_set(), 0.0, 0
    for step in range(steps):
        wished = policy(original.env, rng)
        action = known.index(wished) if wished in known else 0
        seen = env.step(action)
        reward, over = original.act(known[action])
        same = np.array_equal(seen.successor, original.state()) and (seen.reward, seen.terminated) == (reward, over)
        if over:
            original.reset()
        assert same, f"step {step}"
        assert np.array_equal(seen.obs, original.state()), f"step {step}"
        assert (seen.last, seen.truncated) == (over, False)
        total, ends = total + reward, ends + over
    return total, ends


def check(name: str, steps: int) -> None:
    _, ends = play_both(name, wander, steps=steps, seed=1, sticky=0.1, ramping=True)
    assert ends >= steps // 2_501
    for seed, sticky, ramping in ((2**32 - 1, 0.02, True), (0, 0.0, False)):
        reward, _ = play_both(name, SKILLED[name], steps=steps, seed=seed, sticky=sticky, ramping=ramping)
        assert reward > LEAST_REWARD[name] * steps / 4_000


@pytest.mark.parametrize("name", GAMES)
def test_every_step_is_the_packages(name: str) -> None:
    check(name, 4_000)


@pytest.mark.long
@pytest.mark.parametrize("name", GAMES)
def test_every_step_is_the_packages_for_long(name: str) -> None:
    check(name, 200_000)


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1])
def test_chance_is_numpys(seed: int) -> None:
    c, memory, numpy = library(), ctypes.create_string_buffer(4 * 625), np.random.RandomState(seed)
    c.hr_twister_rand.restype = ctypes.c_double
    c.hr_twister_seed(memory, ctypes.c_uint32(seed))
    for outcomes in 200 * [1, 2, 3, 5, 7, 8, 1000, 2**31 - 1]:
        assert c.hr_twister_rand(memory) == numpy.rand()
        assert c.hr_twister_below(memory, outcomes) == numpy.randint(outcomes)


@pytest.mark.parametrize("name", GAMES)
def test_a_game_saved_in_the_middle_goes_on_the_same(name: str) -> None:
    env, rng = HostMinAtar(name, sticky=0.2, ramping=False), np.random.default_rng(1)
    env.reset(seed=3)
    for _ in range(237):
        env.step(int(rng.integers(env.spec.n_actions)))
    restored = HostMinAtar(name, sticky=0.9, seed=99)
    restored.restore(json.loads(json.dumps(env.save())))
    assert restored.save() == env.save()
    for _ in range(2_000):
        action = int(rng.integers(env.spec.n_actions))
        for mine, theirs in zip(env.step(action), restored.step(action), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert restored.save() == env.save()


def test_what_was_saved_or_seen_does_not_change_when_the_game_goes_on() -> None:
    env = HostMinAtar("space_invaders")
    first, saved = env.reset(0), env.save()
    seen, before = first.copy(), json.dumps(saved)
    for _ in range(50):
        env.step(3)
    assert json.dumps(saved) == before
    np.testing.assert_array_equal(first, seen)


@pytest.mark.parametrize("name", GAMES)
def test_what_is_no_situation_of_the_game_is_refused_and_nothing_changed(name: str) -> None:
    """Numbers at random, and a number at random in a sound state: refused, or played without leaving the board."""
    env, rng = HostMinAtar(name), np.random.default_rng(0)
    sound, refused = env.save(), 0
    words = unpack(sound["state"])
    first, used = 1 + 624, words[1 + 624]
    assert used <= 624
    for trial in range(300):
        strange = words.copy()
        if trial < 10:
            strange = rng.integers(0, 2**32, words.shape).astype("<u4")
        else:
            strange[first + rng.integers(0, 40)] = rng.choice([9, 10, 47, 48, 100, 2**31 - 1, 2**31, 2**32 - 1])
        before = env.save()
        try:
            env.restore({**sound, "state": pack(strange)})
        except CheckpointDamaged:
            refused += 1
            assert env.save() == before
        for _ in range(30):
            env.step(int(rng.integers(env.spec.n_actions)))
    assert refused >= 10


@pytest.mark.parametrize("change", [{"format": 0}, {"state": pack(np.zeros(3, "<u4"))}, {"state": pack(np.zeros(3))}])
def test_a_state_of_another_kind_is_refused(change: dict[str, Any]) -> None:
    env = HostMinAtar("breakout")
    before = env.save()
    with pytest.raises(CheckpointDamaged, match="minatar/breakout"):
        env.restore({**before, **change})
    assert env.save() == before


def test_bad_input_is_named() -> None:
    env = HostMinAtar("breakout")
    with pytest.raises(ValueError, match="unknown MinAtar game 'pong'"):
        HostMinAtar("pong")
    with pytest.raises(ValueError, match="sticky is a probability"):
        HostMinAtar("breakout", sticky=1.5)
    with pytest.raises(ValueError, match=r"0\.\.2, got 3"):
        env.step(3)
    with pytest.raises(ValueError, match="saved state is of minatar/freeway"):
        env.restore(HostMinAtar("freeway").save())


def test_it_imports_neither_the_package_nor_jax() -> None:
    code = (
        "import sys; from headrace.envs import make; make('minatar/breakout').step(0);"
        "print([m for m in ('matplotlib', 'minatar', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_where_it_was_not_compiled_the_remedy_is_said() -> None:
    words = ("train", "qrc", "minatar/breakout", "--engine", "reference", "--form", "host")
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HEADRACE_LEARNER": "/nowhere"},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("headrace: the learner was not compiled: install a C compiler, then run pip install")


def test_the_picture_shows_the_board() -> None:
    env: HostEnv = HostMinAtar("breakout")
    picture = env.render()
    assert picture.shape == (160, 160, 3)
    assert picture.dtype == np.uint8
