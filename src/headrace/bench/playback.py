"""Where and on what a suite is measured: in its games, and by playing back observations of its shape.

An environment that plays back shows the same observations over and over, whatever is done, and costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.envs.base import EnvSpec, TimeStep
from headrace.envs.registry import Environment, environment
from headrace.errors import HeadraceError, UnknownName, unknown

STEPS = 1_000_000  # of the run that the measured steps belong to
FRAMES = 64  # different ones
EPISODE = 500  # steps: long, so that an auxiliary's window is full at nearly every step

GAMES = {"minatar": "breakout", "octax": "pong", "atari": "pong"}
SPECS = {
    "minatar": EnvSpec("playback/minatar", (10, 10, 4), ("noop", "left", "right")),
    "octax": EnvSpec("playback/octax", (32, 64, 4), ("none", "one", "two", "three")),
    "atari": EnvSpec("playback/atari", (84, 84, 4), ("noop", "fire", "right", "left", "right+fire", "left+fire"), 4),
}


class Tape(NamedTuple):
    """What is played back, step by step."""

    frames: np.ndarray
    rewards: np.ndarray


def tape(spec: EnvSpec) -> Tape:
    random = np.random.default_rng(0)
    return Tape(_frames(spec, random).astype(np.float32), (random.random(FRAMES) < 0.1).astype(np.float32))


def _frames(spec: EnvSpec, random: np.random.Generator) -> np.ndarray:
    """Pixels of eight bits where an image is large, zeros and ones where it is small, any numbers where it is none."""
    shape = (FRAMES, *spec.frame_shape)
    if len(shape) < 4:
        return random.standard_normal(shape)
    return random.integers(0, 256, shape) if shape[1] > 32 else random.random(shape) < 0.1


def picture(frame: np.ndarray) -> np.ndarray:
    """The frame in grey."""
    grey = np.atleast_3d(frame).mean(axis=-1)
    return np.repeat((255 * grey / max(float(grey.max()), 1.0)).astype(np.uint8)[..., None], 3, axis=-1)


class HostPlayback:
    """Played back from Python."""

    def __init__(self, spec: EnvSpec) -> None:
        self.spec, found = spec, tape(spec)
        self._frames, self._rewards, self._step = list(found.frames), found.rewards.tolist(), 0

    def reset(self, seed: int) -> np.ndarray:
        self._step = 0
        return self._frames[0]

    def step(self, action: int) -> TimeStep:
        self._step += 1
        i, last = self._step % FRAMES, self._step % EPISODE == 0
        successor = self._frames[i]
        obs = self._frames[0] if last else successor
        return TimeStep(obs, successor, self._rewards[i], last, truncated=False, last=last)

    def save(self) -> dict[str, Any]:
        return {"step": self._step}

    def restore(self, saved: dict[str, Any]) -> None:
        self._step = saved["step"]

    def render(self) -> np.ndarray:
        return picture(self._frames[self._step % FRAMES])


class CompiledPlayback:
    """Played back inside a compiled program; its state is the number of the step."""

    def __init__(self, spec: EnvSpec) -> None:
        self.spec, self._tape = spec, tape(spec)

    def init(self, key: Any) -> tuple[Any, Any]:
        import jax.numpy as jnp

        return jnp.int32(0), jnp.asarray(self._tape.frames[0])

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, TimeStep]:
        import jax.numpy as jnp

        step = state + 1
        last = step % EPISODE == 0
        successor = jnp.asarray(self._tape.frames)[step % FRAMES]
        obs = jnp.where(last, jnp.asarray(self._tape.frames[0]), successor)
        reward = jnp.asarray(self._tape.rewards)[step % FRAMES]
        return step, TimeStep(obs, successor, reward, last, jnp.bool_(False), last)

    def render(self, state: Any) -> np.ndarray:
        return picture(self._tape.frames[int(state) % FRAMES])


class Place(NamedTuple):
    """A game and its shapes; without the game where it is not installed, and why."""

    suite: str
    game: str
    spec: EnvSpec
    env: Environment | None
    notes: tuple[str, ...] = ()

    def host(self) -> Any:
        return self.env.host() if self.env is not None else HostPlayback(self.spec)


def place_of(suite: str, game: str | None = None) -> Place:
    if suite not in GAMES:
        raise unknown("suite", suite, GAMES)
    name = f"{suite}/{game or GAMES[suite]}"
    try:
        env = environment(name)
        spec = env.host().spec
    except UnknownName:
        if game is not None:
            raise
        return _without(suite, f"{name} is not there")
    except HeadraceError as error:
        return _without(suite, str(error))
    return Place(suite, name.partition("/")[2], spec, env)


def _without(suite: str, why: str) -> Place:
    note = f"only the update was measured, on played-back observations of {suite}'s shape: {why}"
    return Place(suite, GAMES[suite], SPECS[suite], None, (note,))


def shared_out(games: Sequence[str], streams: int) -> list[str]:
    """Each game as often as the others, or once more; streams of one game next to each other."""
    bounds = [round(i * streams / len(games)) for i in range(len(games) + 1)]
    return [game for game, start, end in zip(games, bounds, bounds[1:], strict=False) for _ in range(start, end)]


def device() -> str:
    """The accelerator, or the CPU, that JAX computes on."""
    import jax

    device = jax.devices()[0]
    return device.platform if device.platform == device.device_kind else f"{device.platform}: {device.device_kind}"
