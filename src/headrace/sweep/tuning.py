"""Tuning: trials of settings, each a small sweep over environments and seeds, chosen by Optuna.

The agent as it is comes first. Of several environments, each score is divided by the size of that agent's, so that 1 is
as good as untuned. A trial that falls behind the median of the others at a log point is pruned. Everything is in the
folder of the runs: the same call continues, also what was stopped in the middle of a trial.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.agents import Agent, agent_named
from headrace.errors import BadSetting, HeadraceError, require_package
from headrace.runs.files import read_file
from headrace.runs.folder import METRICS
from headrace.runs.tables import read_table
from headrace.sweep.display import Display
from headrace.sweep.driver import Swept, sweep
from headrace.sweep.plan import grid, seed_list
from headrace.training.run import Run, whole

POINTS = 20  # of each run, at which a trial is compared with the others
STARTUP = 5  # trials that nothing is pruned before
DIGITS = 3  # of a number that is tried


class Range(NamedTuple):
    """The values to try for one setting."""

    path: str
    low: float = math.nan
    high: float = math.nan
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()

    def suggested(self, trial: Any) -> str:
        """The value of a trial, as PATH=VALUE."""
        if self.choices:
            return f"{self.path}={trial.suggest_categorical(self.path, self.choices)}"
        if self.whole:
            return f"{self.path}={trial.suggest_int(self.path, int(self.low), int(self.high), log=self.log)}"
        value = trial.suggest_float(self.path, self.low, self.high, log=self.log)
        return f"{self.path}={min(max(float(f'{value:.{DIGITS}g}'), self.low), self.high):g}"


def range_of(text: str, agent: Agent) -> Range:
    """`td.lr=log:1e-5:1e-3`, `td.lamda=0:0.99` or `aux.gate=Always()|Every(5)`."""
    path, _, values = (part.strip() for part in text.partition("="))
    if "|" in values:
        return Range(path, choices=tuple(choice.strip() for choice in values.split("|")))
    log, ends = values.startswith("log:"), values.removeprefix("log:").split(":")
    try:
        low, high = map(float, ends)
    except ValueError:
        raise BadSetting(
            f"a range is PATH=LOW:HIGH, PATH=log:LOW:HIGH or PATH=A|B|C, such as td.lr=log:1e-5:1e-3, got {text!r}"
        ) from None
    if not -math.inf < low < high < math.inf or (log and low <= 0):
        raise BadSetting(f"a range goes from a lower number to a higher one{', above 0' if log else ''}, got {text!r}")
    now: Any = agent
    for name in path.split("."):
        now = getattr(now, name, None)
    return Range(path, low, high, log, isinstance(now, int) and not isinstance(now, bool))


class Tried(NamedTuple):
    """One trial, or the agent as it is."""

    settings: tuple[str, ...]
    state: str  # complete, pruned
    score: float  # NaN where it was pruned


class Tuned(NamedTuple):
    """What tuning found."""

    untuned: float
    tried: list[Tried]  # the best first
    interrupted: bool
    fresh_seeds: str  # that no trial has seen


def scales_of(scores: Mapping[str, float]) -> dict[str, float]:
    """What scores are divided by, by environment: the size of the untuned agent's, but nothing where that is 0."""
    return {env: 1.0 if len(scores) == 1 else abs(score) or 1.0 for env, score in scores.items()}


class Tuning:
    """A study of one agent; `go` tries settings until there are `budget` of them."""

    def __init__(
        self,
        variant: str,
        envs: str,
        over: Sequence[str],
        *,
        out: str | Path,
        budget: float = 40,
        seeds: str = "0:3",
        steps: float = 1_000_000,
        settings: Sequence[str] = (),
        seed: float = 0,
        display: Callable[[], Display] = Display,
        **how: Any,
    ) -> None:
        require_package("optuna", "tune", "tuning needs the optuna")
        if not over:
            raise BadSetting("nothing to tune: give a range, e.g. --over td.lr=log:1e-5:1e-3")
        agent = agent_named(variant)
        self.ranges = [range_of(text, agent) for text in over]
        self.budget, self.seed = whole("budget", budget, 1, 100_000), whole("seed", seed, 0)
        self.out, self.how, self.display = Path(out), how, display
        self.seeds, self.fixed = seed_list(seeds), tuple(settings)
        self._grid: dict[str, Any] = {"variants": variant, "envs": envs, "seeds": self.seeds, "steps": steps}
        self.scales: dict[str, float] = {}
        for low_or_high in (0, -1):  # bad paths and ends are refused before anything is trained
            self.plan([_end_of(found, low_or_high) for found in self.ranges])

    def plan(self, settings: Sequence[str]) -> list[Run]:
        """The runs of a trial, seed by seed, in the order in which they count."""
        engine = {name: self.how[name] for name in ("engine", "form") if name in self.how}
        runs = grid(**self._grid, settings=[*self.fixed, *settings], **engine)
        if len({run.agent for run in runs}) != 1:
            raise BadSetting("one agent is tuned at a time, and each range must be a setting of it")
        return sorted(runs, key=lambda run: (self.seeds.index(run.seed), run.env.name))

    def _train(self, runs: Sequence[Run], stop_when: Callable[[], bool] | None = None) -> Swept:
        how = {name: value for name, value in self.how.items() if name not in ("engine", "form")}
        swept = sweep(runs, self.out, display=self.display(), stop_when=stop_when, **how)
        for found in swept.standings:
            if found.state == "failed":
                raise HeadraceError(f"{found.run.name} failed: {found.cause}")
        return swept

    def go(self) -> Tuned:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        runs = self.plan([])
        swept = self._train(runs)
        if any(found.state == "diverged" for found in swept.standings):
            raise HeadraceError("the agent diverges as it is: choose --set values at which it does not")
        if swept.interrupted:
            return self._tuned(math.nan, [], interrupted=True)
        names = dict.fromkeys(run.env.name for run in runs)
        each = {env: np.mean([_score(f) for f in swept.standings if f.run.env.name == env]) for env in names}
        self.scales = scales_of({env: float(score) for env, score in each.items()})
        study = self._study(optuna)
        while len(_ended(study)) < self.budget:
            if self._trial(study, optuna):
                return self._tuned(self._value(swept), _ended(study), interrupted=True)
        return self._tuned(self._value(swept), _ended(study), interrupted=False)

    def _study(self, optuna: Any) -> Any:
        """The study as it was left; a trial that was stopped in its middle is begun again, and its runs continue."""
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        words = json.dumps([[run.name for run in self.plan([])], self.ranges])
        name = f"tune-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
        journal = self.out / f"{name}.journal"
        try:
            if journal.exists():
                _cut_back(journal)
            storage = JournalStorage(JournalFileBackend(str(journal)))
            study = optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
        except HeadraceError:
            raise
        except Exception as error:  # whatever reading a damaged one ends in
            said = f"the search's record {journal} cannot be read ({type(error).__name__}: {error})"
            raise HeadraceError(f"{said}: remove it, and the same command finds its finished runs again") from error
        study.sampler = optuna.samplers.TPESampler(seed=self.seed + len(study.trials))
        study.pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=POINTS // 4)
        for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
            study.enqueue_trial(trial.params)
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        return study

    def _trial(self, study: Any, optuna: Any) -> bool:
        """Trains one trial; returns whether it was interrupted."""
        trial = study.ask()
        settings = [found.suggested(trial) for found in self.ranges]
        trial.set_user_attr("settings", settings)
        runs, pruned = self.plan(settings), False
        points = self._points(runs)

        def behind() -> bool:
            nonlocal pruned
            for index, value in points:
                if value is None:
                    break
                trial.report(value, index)
                pruned = pruned or trial.should_prune()
            return pruned

        swept = self._train(runs, behind)
        if swept.interrupted and not pruned:
            return True
        if pruned or behind() or any(found.state == "diverged" for found in swept.standings):
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, self._value(swept))
        return False

    def _points(self, runs: Sequence[Run]) -> Iterator[tuple[int, float | None]]:
        """The mean scaled return at each of the points of each run, one run after the other; None while the next is not
        known. The runs before count with what they ended with: the order is the same for every trial."""
        before: list[float] = []
        for number, run in enumerate(runs):
            latest = math.nan
            for point in range(1, POINTS + 1):
                while (latest := self._return_at(run, run.steps * point // POINTS)) != latest:
                    yield 0, None
                yield number * POINTS + point, float(np.mean([*before, latest]))
            before.append(latest)

    def _return_at(self, run: Run, step: int) -> float:
        """The scaled return of a run at its last log point up to a step; NaN while it is not there yet."""
        metrics = read_table(self.out / run.name / METRICS)
        steps = metrics.get("step", np.empty(0))
        logged = step - step % 1000
        if not len(steps) or steps[-1] < logged or logged == 0:
            return 0.0 if logged == 0 else math.nan
        found = float(metrics["return"][np.searchsorted(steps, logged)])
        return 0.0 if math.isnan(found) else found / self.scales[run.env.name]  # no episode has ended yet

    def _value(self, swept: Swept) -> float:
        """The mean over environments and seeds of the scaled scores."""
        return float(np.mean([_score(found) / self.scales[found.run.env.name] for found in swept.standings]))

    def _tuned(self, untuned: float, trials: Sequence[Any], interrupted: bool) -> Tuned:
        found = []
        for trial in trials:
            score = trial.value if trial.state.name == "COMPLETE" else math.nan
            found.append(Tried(tuple(trial.user_attrs["settings"]), trial.state.name.lower(), score))
        best = sorted(found, key=lambda tried: -math.inf if math.isnan(tried.score) else tried.score, reverse=True)
        first = max(self.seeds) + 1
        return Tuned(untuned, best, interrupted, f"{first}:{first + 5}")


def _end_of(found: Range, which: int) -> str:
    value = found.choices[which] if found.choices else f"{(found.low, found.high)[which]:g}"
    return f"{found.path}={value}"


def _score(found: Any) -> float:
    return found.score.mean if found.score else 0.0


def _cut_back(journal: Path) -> None:
    """Cuts off a last line that a killed process left unfinished: the next one would be written behind it."""
    content = read_file(journal)
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(journal, whole)


def _ended(study: Any) -> list[Any]:
    return [trial for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]
