"""Training one run: `train` makes it from words, `train_run` takes it as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from headrace.agents import Agent
from headrace.engines.base import Alone, EpisodeResult
from headrace.envs.registry import EnvLike
from headrace.errors import Diverged
from headrace.runs.files import require_folder
from headrace.runs.folder import RunFolder, Score, score
from headrace.runs.manifest import FILE
from headrace.training.callbacks import Callbacks, Now
from headrace.training.driver import Driver
from headrace.training.evaluation import Evaluations, evaluations, require_second
from headrace.training.member import Member, details_of
from headrace.training.pace import Pace
from headrace.training.progress import Progress
from headrace.training.run import Run, make_run, whole
from headrace.training.sinks import require_sinks


class Trained(NamedTuple):
    """How a call of `train` ended."""

    path: Path
    status: str  # finished or interrupted
    steps_done: int
    score: Score | None
    did_nothing: bool  # the run had been finished before


def train(
    agent: str | Agent,
    env: EnvLike,
    *,
    seed: int = 0,
    steps: float | str = 5_000_000,
    settings: Sequence[str] = (),
    out: str | Path = "runs",
    engine: str = "auto",
    form: str = "auto",
    sinks: Sequence[str] = (),
    on_step: Callable[[Now], Any] | None = None,
    on_episode: Callable[[Now, EpisodeResult], Any] | None = None,
    on_log: Callable[[Now, Mapping[str, float]], Any] | None = None,
    eval_every: float | str | None = None,
    eval_episodes: float = 10,
    checkpoint_every: float | str | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Progress | None = None,
) -> Trained:
    """Trains an agent in an environment, or continues exactly where an earlier call of the same run stopped.

    Args:
        agent: A name (`headrace variants` lists them) or an `Agent`.
        env: A name, such as `minatar/breakout` or `gym/CartPole-v1`; a Gymnasium environment; a function that makes
            one; or an object with `spec`, `reset` and `step`, as `headrace.envs.base.HostEnv`.
        seed: Of all random numbers of the run.
        steps: Environment steps of the whole run: 20_000, or "20k".
        settings: Changes of the agent, such as `td.lr=3e-4`, and of the environment's rules, such as `env.sticky=0`.
        out: The folder in which the run's own folder is made.
        engine: `learner` (C), `reference` (JAX), or `auto`: the learner where it can compute the agent.
        form: Of the environment: `compiled`, `host`, or `auto`: what the engine uses.
        sinks: Where metrics are sent too: `tensorboard`, `wandb`, `mlflow`, `trackio`.
        on_step: Called after every step with a `Now` (run, path, step, arrays); returning True stops the run, saved.
        on_episode: Called after every episode with a `Now` and the episode (step, return, length); likewise.
        on_log: Called every 1,000 steps with a `Now` and the row of metrics; likewise.
        eval_every: Steps between two evaluations of a frozen copy; none by default.
        eval_episodes: Episodes that it plays each time.
        checkpoint_every: Steps between two checkpoints, instead of `checkpoint_seconds`.
        checkpoint_seconds: Seconds between two checkpoints.
        progress: What is told of the progress; nothing by default.

    Returns:
        The run's folder, how it ended, the steps that are done, and its score.

    Example:
        ```python
        done = headrace.train("qrc", "minatar/breakout", steps=20_000, settings=["td.lr=3e-4"])
        print(done.path, done.score)
        ```
    """
    run = make_run(agent, env, seed=seed, steps=steps, settings=settings, engine=engine, form=form)
    every = None if checkpoint_every is None else whole("checkpoint_every", checkpoint_every, 1)
    require_sinks(sinks)
    callbacks, wanted = Callbacks(on_step, on_episode, on_log), evaluations(eval_every, eval_episodes)
    if wanted:
        require_second(run)
    pace, shown = Pace(every, checkpoint_seconds), progress or Progress()
    return train_run(run, out, sinks, pace, shown, callbacks=callbacks if any(callbacks) else None, evaluated=wanted)


def train_run(
    run: Run,
    out: str | Path,
    sinks: Sequence[str],
    pace: Pace,
    progress: Progress,
    *,
    callbacks: Callbacks | None = None,
    evaluated: Evaluations | None = None,
    draw: bool = True,
) -> Trained:
    """Trains the run, or does nothing if it is finished; Diverged if it diverges now or did before."""
    path = Path(out) / run.name
    if ended := _ended_before(path, run):
        return ended
    require_folder(path)
    stream = run.stream()  # fails, if it must, before anything is written
    with RunFolder.open(path, run.identity(), details_of(run)) as folder:
        if ended := _ended(folder):
            return ended
        if run.notice:
            progress.notice(run.notice)
        if draw and find_spec("matplotlib") is None:
            progress.notice("no learning curve will be drawn: pip install 'headrace[plots]'")
            draw = False
        member = Member(run, folder)
        member.resume()
        driver = Driver(
            Alone(stream), [member], pace, progress,
            sinks=sinks, callbacks=callbacks, evaluations=evaluated, draw=draw,
        )  # fmt: skip
        (status,) = driver.go()
        if member.diverged:
            raise _diverged(folder, *member.diverged)
        return Trained(path, status, stream.step, score(folder.metrics()), did_nothing=False)


def _ended_before(path: Path, run: Run) -> Trained | None:
    """As `_ended`, found out by reading alone: running a finished run again changes not even a time stamp."""
    if not (path / FILE).is_file():
        return None
    folder = RunFolder.read(path)
    return _ended(folder) if folder.identity == run.identity() else None


def _ended(folder: RunFolder) -> Trained | None:
    """What there is to say of a run that has nothing left to do."""
    if folder.status == "diverged":
        raise _diverged(folder, folder.manifest["diverged"]["quantity"], folder.manifest["diverged"]["step"])
    if folder.status == "finished":
        folder.require_sound()
        return Trained(folder.path, "finished", folder.identity["steps"], score(folder.metrics()), did_nothing=True)
    return None


def _diverged(folder: RunFolder, quantity: str, step: int) -> Diverged:
    """The error that also says what is left of the run."""
    saved = folder.latest()
    return Diverged(quantity, step, saved.step if saved else None)
