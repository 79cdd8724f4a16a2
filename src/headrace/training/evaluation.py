"""Evaluates and plays trained agents, with parameters and normaliser frozen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent, fit
from headrace.engines.base import EpisodeResult, begun, stepped
from headrace.envs.base import EnvSpec
from headrace.envs.hosted import Hosted
from headrace.envs.registry import EnvLike, environment_given
from headrace.envs.stacked import whole_observations
from headrace.errors import BadSetting, HeadraceError
from headrace.part import is_foreign
from headrace.policy import PARAMS, Policy
from headrace.runs import checkpoints
from headrace.runs.checkpoints import Checkpoint
from headrace.runs.folder import RunFolder
from headrace.runs.manifest import why_ended
from headrace.training import video
from headrace.training.run import Run, run_of, whole

STEP = "stream/agent/step"  # the array of a saved stream that counts its steps
BEST = "best"  # where a run keeps the checkpoint at which it was evaluated best


class Evaluation(NamedTuple):
    """Episodes of a frozen agent."""

    step: int  # of the checkpoint
    epsilon: float
    episodes: list[EpisodeResult]
    cut: int  # episodes stopped at the limit of steps
    notices: list[str]  # checkpoints that could not be used
    out: Path | None = None  # the video of the episode, where one was asked for

    @property
    def returns(self) -> np.ndarray:
        return np.array([e.episode_return for e in self.episodes])


def evaluate(
    path: str | Path,
    *,
    episodes: float = 30,
    epsilon: float = 0.01,
    seed: float = 1_000_000,
    max_steps: float = 27_000,
    env: EnvLike | None = None,
    best: bool = False,
) -> Evaluation:
    """Plays whole episodes with a run's newest checkpoint. Nothing is learnt, nothing is written.

    Args:
        path: The run's folder.
        episodes: How many to play.
        epsilon: The probability of a random action.
        seed: Of the environment and of random actions.
        max_steps: Where an episode is stopped.
        env: Another environment than the run's, or the run's own where that has no name.
        best: Play with the checkpoint at which evaluations during training were best, not the newest.

    Returns:
        The episodes, their `returns` as an array, and the step of the checkpoint.

    Example:
        ```python
        found = headrace.evaluate(done.path, episodes=10)
        print(found.returns.mean())
        ```
    """
    count, limit = whole("episodes", episodes, 1, 1_000_000), whole("max_steps", max_steps, 1)
    place, policy, folder, step = _load(path, epsilon, seed, env, best)
    found = list(played(place, policy, int(seed), count, limit))
    cut = sum(cut for _, cut in found)
    return Evaluation(step, epsilon, [episode for episode, _ in found], cut, folder.notices)


def play(
    path: str | Path,
    out: str | Path | None = None,
    *,
    epsilon: float = 0.01,
    seed: float = 1_000_000,
    max_steps: float = 1_000,
    env: EnvLike | None = None,
    best: bool = False,
) -> Evaluation:
    """Plays one episode and writes it as a video or an animated picture.

    Args:
        path: The run's folder.
        out: What to write: an .mp4, which needs ffmpeg, or a .gif, .webp or .png. By default it is written beside the
            run, as an .mp4 where ffmpeg is installed, as a .gif where Pillow is, and else as an animated .png.
        epsilon: The probability of a random action.
        seed: Of the environment and of random actions.
        max_steps: Where the episode is stopped.
        env: Another environment than the run's, or the run's own where that has no name.
        best: Play with the checkpoint at which evaluations during training were best, not the newest.

    Returns:
        The episode that was played, and where the video is.

    Example:
        ```python
        headrace.play(done.path, "breakout.gif")
        ```
    """
    if out is not None:
        video.require(Path(out))
    limit = whole("max_steps", max_steps, 1)
    place, policy, folder, step = _load(path, epsilon, seed, env, best)
    frames: list[np.ndarray] = []
    episode, cut = next(played(place, policy, int(seed), 1, limit, frames))
    written = Path(out) if out is not None else video.beside(Path(path), step)
    video.require(written)
    video.write(frames, written)
    return Evaluation(step, epsilon, [episode], int(cut), folder.notices, written)


def _load(
    path: str | Path, epsilon: float, seed: float, env: EnvLike | None, best: bool
) -> tuple[Any, Any, RunFolder, int]:
    if not 0 <= epsilon <= 1:
        raise BadSetting(f"epsilon must be between 0 and 1, got {epsilon}")
    seed = whole("seed", seed, 0, 2**31 - 1_000_001)  # an episode's seed is this one and its number
    folder, checkpoint = best_of(path) if best else newest_checkpoint(path)
    run = run_of(folder.identity)
    place = host_of(run) if env is None else whole_observations(environment_given(env).host())
    policy = policy_of(run.agent, place.spec, checkpoint.arrays, eps=epsilon, seed=seed)
    return place, policy, folder, checkpoint.step


def newest_checkpoint(path: str | Path) -> tuple[RunFolder, Checkpoint]:
    """A run's folder and its newest good checkpoint; an error where it has none."""
    folder = RunFolder.read(path)
    checkpoint = folder.latest()
    if checkpoint is None:
        why = "; ".join(folder.notices) or _why_none(folder)
        raise HeadraceError(f"{path} has no checkpoint that can be used: {why}")
    return folder, checkpoint


def require_learner(run: Run, arrays: dict[str, np.ndarray]) -> None:
    """An error where only what acts was kept, as of the agents of the zoo."""
    if STEP not in arrays and f"{PARAMS}head/0/w" in arrays:
        raise HeadraceError(f"only its policy was kept, which cannot learn: `{run.command}` trains such an agent")


def best_of(path: str | Path) -> tuple[RunFolder, Checkpoint]:
    """A run's folder and the checkpoint at which its evaluations during training were best."""
    folder = RunFolder.read(path)
    kept = checkpoints.newest_first(folder.path / BEST)
    if not kept:
        raise HeadraceError(f"{path} keeps no best checkpoint: train it with --eval-every, or leave out --best")
    return folder, checkpoints.load(kept[0], folder.run_hash).checkpoint


def _why_none(folder: RunFolder) -> str:
    if folder.status == "finished":
        return "they were not kept"
    if folder.status == "diverged":
        return f"the agent diverged before one was saved ({why_ended(folder.manifest)})"
    return "it has none yet: train it for a while first"


def policy_of(agent: Agent, spec: EnvSpec, arrays: dict[str, np.ndarray], *, eps: float, seed: int) -> Any:
    """What acts by a checkpoint's arrays: in NumPy, or as the definition does where the network is somebody else's."""
    if not is_foreign(type(fit(agent.network, spec.observation_shape))):
        return Policy(agent, arrays, eps=eps, seed=seed)
    from headrace.engines.jax.frozen import FrozenPolicy

    return FrozenPolicy(agent, spec, arrays, eps=eps, seed=seed)


def spec_of(run: Run, arrays: dict[str, np.ndarray]) -> EnvSpec:
    """What the saved agent sees and does, told by its arrays: the environment need not be installed."""
    policy = Policy(run.agent, arrays)
    frames = policy.observation_shape[-1] // policy.frame_shape[-1]
    names = tuple(map(str, range(policy.n_actions)))
    return EnvSpec(run.env.name, policy.observation_shape, names, frames, box=policy.box)


def host_of(run: Run) -> Any:
    """The run's environment, stepped from Python, which shows whole observations."""
    return whole_observations(Hosted(run.env.compiled()) if run.form == "compiled" else run.env.host())


def played(
    env: Any, policy: Any, seed: int, count: int, max_steps: int, frames: list[np.ndarray] | None = None
) -> Iterator[tuple[EpisodeResult, bool]]:
    """Each episode, and whether it was stopped at the limit of steps."""
    for number in range(count):
        obs, total, length, last = begun(env, seed + number), 0.0, 0, False
        while not last and length < max_steps:
            if frames is not None:
                frames.append(env.render())
            timestep = stepped(env, policy(obs), length + 1)
            obs, last = timestep.obs, bool(timestep.last)
            total, length = total + float(timestep.reward), length + 1
        yield EpisodeResult(length, total, length), not last
