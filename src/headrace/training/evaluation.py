"""Evaluates and plays trained agents, with parameters and normaliser frozen, also while a run is trained.

    <run>/evaluations.csv   step,mean,std,min,max,episodes      returns of a frozen copy
    <run>/best/             the checkpoint with the highest mean

The copy plays in an environment of its own, with the same seeds each time: the run does not notice it, and a run that
is stopped and continued has the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent, fit
from headrace.engines.base import EpisodeResult, begun, stepped
from headrace.envs.base import EnvSpec
from headrace.envs.hosted import Hosted, whole_observations
from headrace.envs.registry import EnvLike, environment_given
from headrace.errors import BadSetting, HeadraceError
from headrace.part import is_foreign
from headrace.policy import PARAMS, Policy
from headrace.runs import checkpoints
from headrace.runs.checkpoints import Checkpoint, Saved
from headrace.runs.files import remove_temporaries, storage_errors, write_atomically
from headrace.runs.folder import EVALUATED, RunFolder, RunWriter
from headrace.runs.manifest import why_ended
from headrace.training import video
from headrace.training.run import Run, run_of, whole

STEP = "stream/agent/step"  # the array of a saved stream that counts its steps
BEST = "best"  # where a run keeps the checkpoint at which it was evaluated best
EPSILON, SEED, MAX_STEPS = 0.01, 1_000_000, 27_000  # as `headrace eval` has them


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
        return "none were kept"
    if folder.status == "diverged":
        return f"the agent diverged before one was saved ({why_ended(folder.manifest)})"
    return "it has none yet: train it for a while first"


def policy_of(agent: Agent, spec: EnvSpec, arrays: dict[str, np.ndarray], *, eps: float, seed: int) -> Any:
    """The policy of a checkpoint: in NumPy, or computed by the definition where the network is from another package."""
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


class Evaluations(NamedTuple):
    """When a run is evaluated, beside its end, and by how many episodes."""

    every: int  # steps
    episodes: int = 10

    def due(self, step: int, total: int) -> bool:
        return step % self.every == 0 or step == total

    def limit(self, step: int) -> int:
        """Steps until the next evaluation."""
        return self.every - step % self.every


def evaluations(every: float | str | None, episodes: float | str = 10) -> Evaluations | None:
    """The evaluations that these numbers ask for; none where no interval is given."""
    count = whole("eval_episodes", episodes, 1, 1_000_000)
    return None if every is None else Evaluations(whole("eval_every", every, 1), count)


def require_second(run: Run) -> None:
    """An error where the run's environment is one object, which cannot also be the copy's."""
    given = run.env.given
    if hasattr(given, "step") and not isinstance(given, type):
        raise BadSetting(
            f"eval_every needs a second environment, and {run.env.name} is one object: give a function that makes it"
        )


class Evaluator:
    """Evaluates one run whenever it is told to."""

    def __init__(self, run: Run, folder: RunWriter, wanted: Evaluations) -> None:
        self._run, self._folder, self._wanted = run, folder, wanted
        folder.keep_evaluations()
        self._env: Any = None

    def at(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        """Plays the episodes; adds a row, and keeps the arrays where no earlier mean was as high."""
        returns = self._returns(arrays)
        found = returns.mean(), returns.std(), returns.min(), returns.max(), len(returns)
        if found[0] > max(self._folder.evaluations()["mean"], default=-np.inf):
            self._keep(step, arrays)
        names = (name for name, _ in EVALUATED)
        self._folder.append_evaluation(dict(zip(names, (step, *found), strict=True)))

    def _returns(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        if self._env is None:
            self._env = host_of(self._run)
        policy = policy_of(self._run.agent, self._env.spec, arrays, eps=EPSILON, seed=SEED)
        episodes = played(self._env, policy, SEED, self._wanted.episodes, MAX_STEPS)
        return np.array([episode.episode_return for episode, _ in episodes])

    def _keep(self, step: int, arrays: dict[str, np.ndarray]) -> None:
        folder = self._folder.path / BEST
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)
            remove_temporaries(folder)
        kept = checkpoints.path_of(folder, step)
        write_atomically(kept, checkpoints.encode(self._folder.run_hash, Saved(Checkpoint(step, arrays, {}), {})))
        for other in checkpoints.newest_first(folder):
            if other != kept:
                with storage_errors(other):
                    os.unlink(other)
